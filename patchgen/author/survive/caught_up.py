"""Find the changes of a variant that upstream now makes itself, so that they can be deleted.

    @edit("forward")                    the parent's `forward` is what the edit made of it
    def forward(self, x): ...           the parent's `forward` says the same
    supports_x = True                   the parent says the same
    class Layer(a.Layer, Base): ...     the parent has the base itself

The outputs on disk are compared with the parent's text, so nothing has to be converted, and the
variant need not convert on the new release.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from patchgen.author.align.file import File, Member
from patchgen.author.rebase.declared import Declared, declared_changes, resolve
from patchgen.author.rebase.naming import changed_member, in_names_of, output_of
from patchgen.author.rebase.releases import Tree
from patchgen.author.rebase.rewriting import member_of
from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import Location
from patchgen.syntax.same import plain_text
from patchgen.syntax.text import Source

_Symbol = tuple[str, str]


@dataclass(frozen=True)
class CaughtUp:
    """A declared change that upstream has; `kind` is edit, override, attribute or base.

    `spans` are its first and last lines, several for several edits of one method.
    """

    at: Location
    spans: tuple[tuple[int, int], ...]
    name: str
    kind: str

    @property
    def hint(self) -> str:
        """What to delete."""
        if self.kind == "base":
            return f"delete the base {self.name.rpartition(' ')[2]}"
        spans = [str(a) if a == b else f"{a} to {b}" for a, b in self.spans]
        return f"delete {'line' if spans[0].isdecimal() else 'lines'} {' and '.join(spans)}"


@dataclass(frozen=True)
class Retirement:
    """The declarations that upstream has; `whole`: the modular file has no others."""

    found: tuple[CaughtUp, ...]
    whole: bool


def find_caught_up(modular: File, outputs: Mapping[str, File], tree: Tree) -> Retirement:
    """The declarations that the release of `tree` has; `outputs` are those on disk by name."""
    changes = list(declared_changes(modular))
    bases = list(_added_bases(modular))
    found = [
        _place(modular.source, change) for change in changes if _is_there(change, outputs, tree)
    ]
    for owner, parent, node, base in bases:
        if base in _bases_of(tree, parent):
            at = modular.source.at_node(node)
            lines = ((node.lineno, node.end_lineno or 0),)
            found.append(CaughtUp(at, lines, f"{owner} from {base[1]}", "base"))
    whole = bool(found) and len(found) == len(changes) + len(bases)
    return Retirement(tuple(sorted(found, key=lambda one: one.at)), whole)


def _is_there(change: Declared, outputs: Mapping[str, File], tree: Tree) -> bool:
    """Whether a member is the same in the release and in the output."""
    if change.is_whole and change.owner:
        return False  # a class written out is one change, and not the sum of its members
    output = output_of(change.module, outputs)
    theirs = tree.member(change.module, change.parent, change.member)
    if output is None or theirs is None:
        return False
    mine = member_of(output, change.owner, change.member)
    other = changed_member(in_names_of(output, theirs.file, change), change, theirs.owner)
    return mine is not None and other is not None and _text(mine) == _text(other)


def _text(member: Member) -> list[str]:
    return [plain_text(node) for node in member.nodes]


def _place(source: Source, change: Declared) -> CaughtUp:
    spans = tuple((first_line(node), node.end_lineno or 0) for node in change.nodes)
    at = source.at(spans[0][0], change.nodes[0].col_offset)
    return CaughtUp(at, spans, change.name, change.kind)


def _added_bases(modular: File) -> Iterator[tuple[str, _Symbol, ast.expr, _Symbol]]:
    """Each base beside the parent: its class, the parent, the expression, and what it means."""
    for name, definition in modular.definitions.items():
        if not isinstance(definition.node, ast.ClassDef):
            continue
        bases = [(node, resolve(modular, node)) for node in definition.node.bases]
        parents = [one for _, one in bases if one and one[0].startswith("transformers.models.")]
        for node, symbol in bases:
            if symbol is not None and parents and symbol != parents[0]:
                yield name, parents[0], node, symbol


def _bases_of(tree: Tree, parent: _Symbol) -> set[_Symbol]:
    """The classes that a parent derives from, as far as the release names them."""
    found: set[_Symbol] = set()
    for file, definition in tree.ancestry(*parent):
        assert isinstance(definition.node, ast.ClassDef)
        symbols = (resolve(file, node) for node in definition.node.bases)
        found |= {symbol for symbol in symbols if symbol is not None}
    return found
