"""Find where a modular file means a parent itself, and not the class that replaces it.

In: the modular files and what their classes derive from.  Out: the classes that stay subclasses
because of that, with the reason.

    class Base(toy.Base): ...


    def plain():
        return toy.Base()    # an object of the parent, not of the class above
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Mapping, Sequence

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.annotations import find_annotations
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.errors import Location
from patchgen.syntax.reads import Reference
from patchgen.syntax.trees import Position, names_within, parse_once, position_of, walk

# What Python itself gives each class: `Parent.__dict__["f"]` is about Parent, and no member of it.
_OF_CLASS_OBJECT = frozenset("__annotations__ __dict__ __doc__ __module__ __name__".split())


def find_named_definitions(
    layers: Sequence[ModuleIndex],
    parents: Container[str],
    merged: Container[Symbol],
    bindings: Bindings,
) -> frozenset[Symbol]:
    """What a modular file names of the modules `parents`, and binds anew without deriving from it.

    TABLE = {**llama.TABLE, "fast": Fast}       llama.TABLE is carried as `_TABLEParent`
    """
    bound = {name for layer in layers for name in layer.names if layer.definition(name)}
    named: set[Symbol] = set()
    for layer in layers:
        for block in layer.blocks:
            for reference in _find_uses(block):
                symbol, _ = find_meaning(layer, reference, bindings)
                if symbol is not None and symbol.module in parents and symbol not in merged:
                    index = bindings.env.index(symbol.module, Location(""))
                    if symbol.name in bound and index.definition(symbol.name) is not None:
                        named.add(symbol)
    return frozenset(named)


def find_mentions(
    layers: Sequence[ModuleIndex], parents: Mapping[Symbol, Sequence[Symbol]], bindings: Bindings
) -> dict[Symbol, str]:
    """The classes that stay subclasses because a parent itself is used.

    `parents` holds the parents of each class of the modular files.  `toy.Base()` in a modular file
    makes an object of the parent: if the class `Base` was merged with it, no class of the flat file
    would be the parent any more.
    """
    # Several classes of the modular files can have the same parent.
    heirs: dict[Symbol, list[Symbol]] = {}
    for heir, ancestors in parents.items():
        for parent in ancestors:
            heirs.setdefault(parent, []).append(heir)
    mentions: dict[Symbol, str] = {}
    # Without parents there is nothing to look for, and every block would be parsed.
    for layer in layers if heirs else ():
        for block in layer.blocks:
            for reference in _find_uses(block):
                symbol, used = find_meaning(layer, reference, bindings)
                # In its own module, the name means the class of the modular file.
                if symbol is None or symbol not in heirs or symbol.module == layer.source.module:
                    continue
                if not _may_mean_heir(layer, block, reference, heirs[symbol], used):
                    line = block.first + reference.line - 1
                    for heir in heirs[symbol]:
                        why = f"{symbol} itself is used on line {line} of {layer.source.path}"
                        mentions.setdefault(heir, why)
    return mentions


def _may_mean_heir(
    layer: ModuleIndex, block: Block, reference: Reference, heirs: Sequence[Symbol], used: int
) -> bool:
    """Whether a read of a parent means the same once the parent is merged into its heir.

    isinstance(x, Parent)       yes: every object of the parent is one of its only heir
    Parent.method(self)         yes, in a class below it
    Parent.__dict__             no
    """
    behind = reference.attributes[used:]
    if behind:
        is_below = Symbol(layer.source.module, block.name) in heirs
        return is_below and behind[0] not in _OF_CLASS_OBJECT
    return len(heirs) == 1 and any(
        name.lineno == reference.line and name.col_offset == reference.column
        for node in walk(parse_once(block.text))
        for classes in _find_classes(node)
        for name in names_within(classes)
    )


def _find_uses(block: Block) -> Iterator[Reference]:
    """Reads of names that are no base of a class, no annotation and no code to be replaced.

    `with old: self.model = toy.Base()` describes a statement of the parent, and makes no object.
    """
    if block.kind == "import":
        return
    # Positions are the same in each parse of one text; nodes are not.
    left_out: set[Position] = set()
    for node in _find_left_out(parse_once(block.text)):
        inner = [expression for expression in walk(node) if isinstance(expression, ast.expr)]
        left_out.update(position_of(expression) for expression in inner)
    for reference in block.references:
        if not reference.quoted and reference.position not in left_out:
            yield reference


def _find_left_out(tree: ast.Module) -> Iterator[ast.AST]:
    """The parts of a block whose reads of a parent mean no object of it."""
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            yield from statement.bases
    yield from find_annotations(tree)
    for node in walk(tree):
        match node:
            case ast.With(items=[ast.withitem(context_expr=ast.Name(id="old"))], body=body):
                yield from body


def _find_classes(node: ast.AST) -> Sequence[ast.expr]:
    """The classes in a check of what an object is."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]):
            return [classes]
        case ast.ExceptHandler(type=ast.expr() as classes) | ast.MatchClass(cls=classes):
            return [classes]
        case _:
            return []


def find_meaning(
    index: ModuleIndex, reference: Reference, bindings: Bindings
) -> tuple[Symbol | None, int]:
    """What the read name means, and how many of the attributes behind it that takes.

    `llama.LlamaMLP.forward`: the attributes of a module are definitions, those of a class not.
    """
    symbol = bindings.meaning(index, reference.name)
    used = 0
    for attribute in reference.attributes:
        # A symbol without a name is a module.
        if symbol is None or symbol.name:
            break
        symbol = bindings.canonical(Symbol(symbol.module, attribute), Location(""))
        used += 1
    return symbol, used
