"""Read a generated text once for all that validate it, statement by statement.

In: the text of an output or of its diff base.  Out: its `Part`s, each with the tree of its
statements and the global names that they read.  Most parts of a variant stand in its parent too, or
in another variant.  `parse_once` and `references_in` remember what is known of such a text.

    import torch                one part
    @torch.no_grad()            one part: the function with its decorator
    def scale(x): ...
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from patchgen.syntax.blocks import has_lazy_annotations, references_in
from patchgen.syntax.reads import Reference
from patchgen.syntax.trees import parse_once

# A line that may begin a statement.  Others are blank, indented, comments, ends of brackets, or
# clauses of the statement above.
_BEGINNING = re.compile(r"^(?!(?:else|elif|except|finally)\b)[^\s#)\]}]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Part:
    """Whole lines of a text, nearly always one statement; the first line has the number `first`.

    The lines of `tree` count from 1.  Nobody changes it.
    """

    first: int
    text: str
    tree: ast.Module = field(compare=False, repr=False)

    def locate(self, line: int) -> int:
        """The number that a line of the part has in the whole text."""
        return self.first + line - 1


@dataclass(frozen=True)
class Parsed:
    """A text as the validation sees it."""

    text: str
    parts: tuple[Part, ...]

    @property
    def body(self) -> list[ast.stmt]:
        """The statements of all parts, in order."""
        return [node for part in self.parts for node in part.tree.body]

    @functools.cached_property
    def _has_lazy_annotations(self) -> bool:
        return has_lazy_annotations(self.body)

    def references(self, part: Part) -> tuple[Reference, ...]:
        """Every read of a global name in `part`, at its position there."""
        return references_in(part.text, self._has_lazy_annotations)


# One output at a time is validated, against one diff base.
@functools.lru_cache(maxsize=2)
def parse_output(text: str) -> Parsed:
    """Parse `text`.  Raises SyntaxError or ValueError for what is not Python."""
    return Parsed(text, tuple(read_parts(text)))


def read_parts(text: str) -> Iterator[Part]:
    """The parts of `text`, in order, each parsed when it is asked for.

    Raises as `parse_output` does.
    """
    start, line = 0, 1
    for end in [*list(_find_cuts(text))[1:], len(text)]:
        part = text[start:end].rstrip("\n") + "\n"
        try:
            yield Part(line, part, parse_once(part))
        except SyntaxError:
            # A line of a string only looked like the beginning of a statement.
            rest = text[start:]
            yield Part(line, rest, parse_once(rest))
            return
        line += text.count("\n", start, end)
        start = end


def _find_cuts(text: str) -> Iterator[int]:
    """Where statements seem to begin.

    They do where the text above parses by itself: it then ends outside of strings and brackets.
    """
    above = ""
    for found in _BEGINNING.finditer(text):
        # What stands below a decorator belongs to it.
        if above != "@":
            yield found.start()
        above = found.group()
