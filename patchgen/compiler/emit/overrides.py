"""Find what a modular file overrides, and the text that its parents have in that place.

    modular file                         parent                           override

    class LlamaMLP(llama.LlamaMLP):      class LlamaMLP(nn.Module):       LlamaMLP.forward
        def forward(self, x):                def forward(self, x):
            return 2 * x                         return x

The output has nothing of such a text, so a new release can change it without an effect on the
output.  An override that asks its parent by `super()` has the parent's code in it and is not
listed; neither are edits, whose `with old:` has to match, and removals.
"""

from __future__ import annotations

import ast
import functools
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from patchgen.compiler.flat import Override
from patchgen.compiler.link.flatblock import Builder
from patchgen.compiler.link.unused import find_ancestors
from patchgen.compiler.plan.declare import Declaration, is_edit, removed_name
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.blocks import Block, ModuleIndex, first_line
from patchgen.syntax.bound import bound_names
from patchgen.syntax.errors import Location
from patchgen.syntax.locate import display_module
from patchgen.syntax.same import is_docstring
from patchgen.syntax.trees import parse_once


def find_overrides(builder: Builder) -> tuple[Override, ...]:
    """Every override of the modular file itself, in its order; each name once."""
    found: dict[str, Override] = {}
    modular = builder.naming.plan.modular
    for block in modular.blocks:
        if block.kind in ("def", "assign", "class"):
            for override in _overrides_of(block, builder):
                found.setdefault(override.name, override)
    return tuple(found.values())


def _overrides_of(block: Block, builder: Builder) -> Iterator[Override]:
    """What one statement of the modular file overrides."""
    modular = builder.naming.plan.modular
    declaration = builder.naming.plan.declaration(Symbol(modular.source.module, block.name))
    ancestors: tuple[Symbol, ...] = ()
    if declaration is not None:
        ancestors = find_ancestors(declaration, builder)
        if declaration.bases:
            yield from _overrides_in_class(block, declaration, ancestors, builder)
    # A class that derives from the parent of its name takes no place: it is that parent, changed.
    namesakes = {Symbol(module, block.name) for module in builder.naming.plan.parents}
    derives_from_namesake = not namesakes.isdisjoint(ancestors)
    if not block.is_of_exports and not derives_from_namesake:
        yield from _replacement(block, builder)


def _replacement(block: Block, builder: Builder) -> Iterator[Override]:
    """A function, constant or class that takes the place of one of a parent module."""
    at = builder.naming.plan.modular.source.at(block.first)
    for name in block.defines:
        parent, text = _find_definition(name, builder)
        yield Override(at, name, parent, text)


def _find_definition(name: str, builder: Builder) -> tuple[str, str]:
    """The definition of the first parent module that has one: its symbol and its text, or ""."""
    for module in builder.naming.plan.parents:
        definition = builder.index(module).definition(name)
        if definition is not None:
            return f"{display_module(module)}.{name}", definition.text
    return "", ""


def _overrides_in_class(
    block: Block, declaration: Declaration, ancestors: Sequence[Symbol], builder: Builder
) -> Iterator[Override]:
    """The members that a class writes anew, each with the parent's if there is one."""
    modular = builder.naming.plan.modular
    bases = frozenset(base.expression for base in declaration.bases)
    (node,) = (n for n in parse_once(block.text).body if isinstance(n, ast.ClassDef))
    for statement in node.body:
        if not _writes_members(statement, modular, builder):
            continue
        at = modular.source.at(block.first + statement.lineno - 1, statement.col_offset)
        for name in dict.fromkeys(bound_names([statement])):
            if _asks_parent(statement, name, bases):
                continue
            owner, text = _find_member(name, ancestors, builder)
            if owner is None:
                yield Override(at, f"{node.name}.{name}")
            # What the modular file overrides of its own is under the eyes of its author.
            elif owner.module != modular.source.module:
                parent = f"{display_module(str(owner))}.{name}"
                yield Override(at, f"{node.name}.{name}", parent, text)


def _writes_members(statement: ast.stmt, modular: ModuleIndex, builder: Builder) -> bool:
    """Whether a statement of a class body gives members of which nothing is the parent's."""
    if isinstance(statement, ast.Delete) or is_docstring(statement):
        return False
    # An edit matches the parent's text, and a removal needs none of it.
    is_rewrite = is_edit(modular, statement, builder.naming.bindings)
    return not is_rewrite and removed_name(statement) is None


def _asks_parent(statement: ast.stmt, name: str, bases: Iterable[str]) -> bool:
    """Whether `super().name` or `Parent.name` stands anywhere in `statement`."""
    for node in ast.walk(statement):
        if not isinstance(node, ast.Attribute) or node.attr != name:
            continue
        match node.value:
            case ast.Call(func=ast.Name(id="super")):
                return True
            case ast.Name() | ast.Attribute() if ast.unparse(node.value) in bases:
                return True
    return False


def _find_member(
    name: str, ancestors: Sequence[Symbol], builder: Builder
) -> tuple[Symbol | None, str]:
    """The nearest class that has a member of that name, and the member's text."""
    for symbol in ancestors:
        # Nothing is known of the classes of torch.
        if builder.lineages.direct_bases(symbol, Location(symbol.module)) is None:
            continue
        definition = builder.index(symbol.module).definition(symbol.name)
        if definition is None:
            continue
        member = read_member(definition.text, symbol.name, name)
        if member:
            return symbol, member
    return None, ""


def read_member(text: str, owner: str, name: str) -> str:
    """The text of the statements that bind `name` in the body of the class `owner`, or ""."""
    lines = text.split("\n")
    # A property and its setter are one member, and so are the overloads of a method.
    found = ["\n".join(lines[each]) for each in _find_members(text, owner).get(name, ())]
    return "".join(textwrap.dedent(f"{statement}\n") for statement in found)


@functools.lru_cache(maxsize=512)  # The next modular file has the same parents.
def _find_members(text: str, owner: str) -> Mapping[str, Sequence[slice]]:
    """The lines of the statements of a class body by the names that they bind."""
    members: dict[str, list[slice]] = {}
    for node in parse_once(text).body:
        if not isinstance(node, ast.ClassDef) or node.name != owner:
            continue
        for statement in node.body:
            own = slice(first_line(statement) - 1, statement.end_lineno)
            for bound in dict.fromkeys(bound_names([statement])):
                members.setdefault(bound, []).append(own)
    return members
