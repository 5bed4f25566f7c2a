"""One statement of a class body, as text that knows where it came from and which names it binds.

class LlamaMLP(nn.Module):
    # how wide it is        `leading`
    size = 3                `text`, which binds `size`
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from patchgen.compiler.classes.fragment import Fragment, parse_fragment
from patchgen.syntax.bound import bound_names


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a class body.

    `text` is whole lines, `leading` the blank lines and comments above them.  `origin` is the place
    in the chain of the class that it stood in, `number` its place in that body, and `line` the line
    of the block on which `text` begins.  `changed`: the text is not that of the block any more, so
    that only `line` is sure.  `removes`: it removes the inherited member.  `hoisted`: it is a copy
    under a private name.
    """

    leading: str
    text: str
    names: tuple[str, ...]
    origin: int
    number: int
    line: int
    changed: bool = False
    removes: bool = False
    hoisted: bool = False

    @property
    def fragment(self) -> Fragment:
        """The text with its syntax tree; it is parsed once."""
        # Kept by the text, so that a statement stays a plain value that is cheap to copy.
        return parse_fragment(self.text)

    @property
    def node(self) -> ast.stmt:
        return self.fragment.nodes[0]

    def with_text(self, text: str) -> Statement:
        """The same statement with another text; equal texts keep their exact positions."""
        return self if text == self.text else replace(self, text=text, changed=True)

    @property
    def is_certain(self) -> bool:
        """Whether its names are bound whenever it has run.

        A branch that is not taken binds nothing, and `x: T` neither.
        """
        return _is_certain(self.node, frozenset(self.names))

    @property
    def key(self) -> tuple[int, int]:
        """Identifies it among the statements of the chain, whatever its text becomes."""
        return self.origin, self.number


def _is_certain(node: ast.stmt, names: frozenset[str]) -> bool:
    """Whether `names` are all bound once `node` has run."""
    match node:
        # Bound in both branches is bound in any case.
        case ast.If(body=body, orelse=[_, *_] as orelse):
            return all(names <= _find_certain(branch) for branch in (body, orelse))
        case (
            ast.If()
            | ast.For()
            | ast.While()
            | ast.Try()
            | ast.TryStar()
            | ast.With()
            | ast.Match()
        ):
            return not names
        case ast.AnnAssign(value=None) | ast.Delete():
            return False
        case _:
            return True


def _find_certain(body: list[ast.stmt]) -> frozenset[str]:
    """The names that `body` surely binds."""
    found: set[str] = set()
    for node in body:
        names = frozenset(bound_names([node]))
        if _is_certain(node, names):
            found |= names
    return frozenset(found)
