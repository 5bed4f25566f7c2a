"""Find statements below a class, in its module, that may change it when the module is imported.

    class Base: keys = ["a"]
    Base.scale = 3                  sets an attribute
    Base.keys.append("b")           changes what an attribute holds
    register(Base)                  hands the class to a function

In Python all of them run before a modular file derives from the class.  In a flat file that has the
child alone, they would be lost, or change the child.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.trees import find_class, list_arguments, mentions, parse_once, sets_attributes


def find_later_changes(
    bodies: Sequence[tuple[ModuleIndex, Symbol, Block]], place: int
) -> Iterator[str]:
    """Statements below the class of a parent, in its module, that may change it.

    class Base: ...
    Base.scale = 3              sets an attribute
    register(Base)              hands the class to a function
    """
    index, symbol, _ = bodies[place]
    replaces_parent = symbol.name == bodies[0][1].name
    # Any mention of the attribute by a child may depend on its value.
    nearer = "".join(block.text for _, _, block in bodies[:place])
    for block in index.blocks:
        if not _reads_when_imported(block, symbol.name):
            continue
        # Where the child has the parent's name, the statement is carried, and means the child.
        if replaces_parent and _changes_flat_class_alike(block, symbol.name, nearer):
            continue
        if _may_set(block) or _passes_on(block, symbol.name):
            line = block.text.strip().split("\n")[0]
            at = f"{index.source.path}:{block.first}"
            yield f"{at} may change {symbol.name} when it is imported: {line}"


def find_later_reads(
    bodies: Sequence[tuple[ModuleIndex, Symbol, Block]], place: int
) -> Iterator[str]:
    """Statements below the class of a parent that may change what one of its attributes holds.

    class Base: keys = ["a"]
    Base.keys.append("b")       runs before the child's body reads `keys`, and not on its own `keys`
    Base.register("c")          a method may change all that the class has
    """
    index, symbol, own = bodies[place]
    replaces_parent = symbol.name == bodies[0][1].name
    nearer = "".join(block.text for _, _, block in bodies[:place])
    node = find_class(own.text, symbol.name)
    values = _find_values(node) if node is not None else frozenset()
    # Where the child has the parent's name, a function means the child.
    by_function = {} if replaces_parent else _find_reads_by_function(index, symbol.name)
    for block in index.blocks:
        for attribute in sorted(_find_attributes_read(block, symbol.name, by_function)):
            is_mentioned = re.search(rf"\b{attribute}\b", nearer) is not None
            # In a class of the parent's name, the statement is carried and changes the child's.
            if replaces_parent and attribute in values and not is_mentioned:
                continue
            if attribute == _read_attribute_set(block, symbol.name):
                continue  # `find_later_changes` asks about it
            at = f"{index.source.path}:{block.first}"
            yield f"{at} reads {symbol.name}.{attribute} when it is imported, and may change it"


def _find_values(node: ast.ClassDef) -> frozenset[str]:
    """The names that a class body assigns: what is no method."""
    targets = [target for one in node.body if isinstance(one, ast.Assign) for target in one.targets]
    targets += [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
    return frozenset(target.id for target in targets if isinstance(target, ast.Name))


def _find_attributes_read(
    block: Block, name: str, by_function: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    """The attributes of the class `name` that a statement reads when its module is imported."""
    # The search for a name is quick, and almost no block has one.
    if not any(each in block.text for each in (name, *by_function)):
        return frozenset()
    found: set[str] = set()
    for reference in block.references:
        if not reference.eager or reference.quoted:
            continue
        if reference.name == name:
            found.update(reference.attributes[:1])
        # The statement of a class or a function only names another function.
        elif block.kind not in ("class", "def"):
            found |= by_function.get(reference.name, frozenset())
    return frozenset(found)


def _find_reads_by_function(index: ModuleIndex, name: str) -> dict[str, frozenset[str]]:
    """The attributes of the class `name` that each function of its module reads when called."""
    functions = [block for block in index.blocks if block.kind == "def"]
    if not any(f"{name}." in block.text for block in functions):
        return {}
    found: dict[str, frozenset[str]] = {}
    size = -1
    # A function may call another one that reads them.
    while size < sum(map(len, found.values())):
        size = sum(map(len, found.values()))
        for block in functions:
            read: set[str] = set()
            for reference in block.references:
                if reference.name == name:
                    read.update(reference.attributes[:1])
                read |= found.get(reference.name, frozenset())
            found |= dict.fromkeys(block.defines, frozenset(read))
    return found


def _reads_when_imported(block: Block, name: str) -> bool:
    """Whether a statement reads `name` when its module is imported."""
    # A function may change the class only when it is called, and these run nothing.
    if block.kind in ("class", "def", "import", "doc"):
        return False
    return any(reference.eager and reference.name == name for reference in block.references)


def _changes_flat_class_alike(block: Block, name: str, nearer: str) -> bool:
    """Whether the statement, carried into the flat file, changes the flat class in the same way.

    That is so where the nearer classes do not mention the attributes that it sets.
    """
    attribute = _read_attribute_set(block, name)
    if attribute is None:
        # It may hand the class to a function, which gets the flat class instead.
        return not _may_set(block)
    return re.search(rf"\b{attribute}\b", nearer) is None


def _read_attribute_set(block: Block, name: str) -> str | None:
    """The attribute that a statement `Base.x = v` sets; None where it is of another form."""
    match parse_once(block.text).body:
        case [ast.Assign(targets=[ast.Attribute(value=ast.Name(id=owner)) as target], value=value)]:
            # `Base.x = Base.y` takes its value from the parent.
            if owner != name or mentions(value, name):
                return None
            return target.attr
        case _:
            return None


def _may_set(block: Block) -> bool:
    """Whether a statement assigns or deletes an attribute."""
    return sets_attributes(parse_once(block.text))


def _passes_on(block: Block, name: str) -> bool:
    """Whether a statement hands the class to a function, or loops over it."""
    # What a loop binds to the class cannot be followed.
    if block.kind == "guard":
        return True
    calls = [node for node in ast.walk(parse_once(block.text)) if isinstance(node, ast.Call)]
    for call in calls:
        if any(mentions(argument, name) for argument in list_arguments(call)):
            return True
    return False
