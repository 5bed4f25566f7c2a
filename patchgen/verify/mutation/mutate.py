"""Which small errors can the changed lines of a file have?

Each `Mutant` is one replacement in the file's text, so the diff that is shown is the code that ran:

    -    causal = queries > 1 and mask is None and causal
    +    causal = queries >= 1 and mask is None and causal
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import itertools
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from patchgen.verify.mutation.expressions import find_mutations
from patchgen.verify.mutation.sites import Site, find_sites

_Span = tuple[int, int]
_COMMA = re.compile(r"\s*,\s*")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One error: `replacement` replaces the text between `start` and `end`."""

    says: str
    line: int
    function: str  # "LlamaModel.forward"; "" where the module itself runs it
    start: int
    end: int
    replacement: str
    last_line: int = 0

    def text(self, right: str) -> str:
        """The whole file with the error."""
        return f"{right[: self.start]}{self.replacement}{right[self.end :]}"

    def diff(self, right: str) -> str:
        """The lines that it changes, before and after."""
        first = right.rfind("\n", 0, self.start) + 1
        end = right.find("\n", self.end)
        last = len(right) if end < 0 else end
        before = right[first:last]
        after = f"{right[first : self.start]}{self.replacement}{right[self.end : last]}"
        lines = [
            line.rstrip()
            for line in difflib.ndiff(before.split("\n"), after.split("\n"))
            if line[0] != "?"
        ]
        moved = [at for at, line in enumerate(lines) if line[:1] in ("+", "-")]
        return "\n".join(lines[moved[0] : moved[-1] + 1]) if moved else ""

    def digest(self, right: str, seed: str = "") -> str:
        """A stable id, of its text and its function but not its line number."""
        identity = "\0".join((seed, self.function, self.says, self.diff(right)))
        return hashlib.sha256(identity.encode()).hexdigest()


def make_mutants(text: str, lines: Collection[int]) -> tuple[Mutant, ...]:
    """Every error of a node that begins on one of `lines`, in the order of the text."""
    tree = ast.parse(text)
    offsets = _Offsets(text)
    made: dict[tuple[int, int, str], Mutant] = {}
    for site in find_sites(tree):
        if getattr(site.node, "lineno", None) in lines:
            for mutant in _mutants_at(site, offsets):
                made.setdefault((mutant.start, mutant.end, mutant.replacement), mutant)
    return tuple(sorted(made.values(), key=lambda mutant: (mutant.start, mutant.end, mutant.says)))


def drawn(
    mutants: tuple[Mutant, ...], text: str, number: int | None, seed: str
) -> tuple[Mutant, ...]:
    """`number` of them (None: all), the same in every run: one of each line first."""
    if number is None or number >= len(mutants):
        return mutants
    order = sorted(mutants, key=lambda mutant: mutant.digest(text, seed))
    met: dict[int, int] = {}
    ranked: list[tuple[int, int, Mutant]] = []
    for mutant in order:
        ranked.append((met.get(mutant.line, 0), len(ranked), mutant))
        met[mutant.line] = met.get(mutant.line, 0) + 1
    chosen = {mutant for _, _, mutant in sorted(ranked, key=lambda each: each[:2])[:number]}
    return tuple(mutant for mutant in mutants if mutant in chosen)


class _Offsets:
    """From places of a syntax tree, which count bytes in a line, to places in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)

    def at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.AST) -> tuple[int, int]:
        first = self.at(_number(node, "lineno"), _number(node, "col_offset"))
        return first, self.at(_number(node, "end_lineno"), _number(node, "end_col_offset"))


def _number(node: ast.AST, name: str) -> int:
    return int(getattr(node, name))


def _mutants_at(site: Site, offsets: _Offsets) -> Iterator[Mutant]:
    node = site.node
    for says, new in find_mutations(site):
        narrow = (
            _within_call(node, new, offsets)
            if isinstance(node, ast.Call) and isinstance(new, ast.Call)
            else None
        )
        yield _made(site, says, *(narrow or (offsets.span(node), _in_site(new, site, offsets))))
    if isinstance(node, ast.stmt):
        for says, span, written in _of_statement(site, offsets):
            yield _made(site, says, span, written)


def _within_call(old: ast.Call, new: ast.Call, offsets: _Offsets) -> tuple[_Span, str] | None:
    """The text that differs between two calls if one argument is left out or two are swapped.

    The rest of the call stays as it is written.
    """
    given = [*old.args, *old.keywords]
    left = [*new.args, *new.keywords]
    if new.func is not old.func:
        return None
    spans = sorted(offsets.span(each) for each in given)
    if any(not _COMMA.fullmatch(offsets.text[a:b]) for (_, a), (b, _) in itertools.pairwise(spans)):
        return None  # arguments in parentheses of their own, or comments between them
    gone = [each for each in given if not any(each is other for other in left)]
    if len(gone) == 1 and len(left) == len(given) - 1 and len(given) > 1:
        at = spans.index(offsets.span(gone[0]))
        return ((spans[at - 1][1], spans[at][1]) if at else (spans[0][0], spans[1][0])), ""
    if gone or len(left) != len(given):
        return None
    moved = [
        at for at, (each, other) in enumerate(zip(given, left, strict=True)) if each is not other
    ]
    if len(moved) != 2:
        return None
    (start, middle), (after, end) = (offsets.span(given[at]) for at in moved)
    text = offsets.text
    return (start, end), f"{text[after:end]}{text[middle:after]}{text[start:middle]}"


def _made(site: Site, says: str, span: tuple[int, int], written: str) -> Mutant:
    line, last = _number(site.node, "lineno"), _number(site.node, "end_lineno")
    return Mutant(says, line, site.function, *span, written, last)


def _in_site(new: ast.expr, site: Site, offsets: _Offsets) -> str:
    """The text of `new`, in parentheses where its neighbours could take it apart."""
    written = _written(new, offsets)
    is_whole = isinstance(
        new, ast.Name | ast.Constant | ast.Call | ast.Attribute | ast.Subscript | ast.Slice
    )
    is_alone = isinstance(site.parent, ast.stmt | ast.keyword) or (
        isinstance(site.parent, ast.Call) and site.field == "args"
    )
    return written if is_whole or is_alone else f"({written})"


def _written(new: ast.expr, offsets: _Offsets) -> str:
    """The text of a node as it is in the file, if it is there."""
    if hasattr(new, "lineno"):
        start, end = offsets.span(new)
        return offsets.text[start:end]
    if (
        isinstance(new, ast.Call)
        and isinstance(new.func, ast.Attribute)
        and isinstance(new.func.value, ast.Call)
    ):
        if (
            hasattr(new.func.value, "lineno") and not new.args and not new.keywords
        ):  # one call behind another
            return f"{_written(new.func.value, offsets)}.{new.func.attr}()"
    return ast.unparse(ast.fix_missing_locations(new))


# --- statements


def _of_statement(site: Site, offsets: _Offsets) -> Iterator[tuple[str, tuple[int, int], str]]:
    node = site.node
    if isinstance(node, ast.AugAssign) and isinstance(
        node.op, ast.Add | ast.Sub | ast.Mult | ast.Div
    ):
        other = {ast.Add: "-=", ast.Sub: "+=", ast.Mult: "/=", ast.Div: "*="}[type(node.op)]
        yield (
            f"becomes {other}",
            offsets.span(node),
            f"{ast.unparse(node.target)} {other} {ast.unparse(node.value)}",
        )
    if isinstance(node, ast.With) and len(node.items) == 1 and node.items[0].optional_vars is None:
        start, (_, end) = offsets.span(node)[0], offsets.span(node.items[0].context_expr)
        if offsets.text[end : end + 2] == ":\n":
            yield f"without {ast.unparse(node.items[0].context_expr)}", (start, end), "if True"
    if isinstance(node, ast.Break | ast.Continue):
        other_name = "continue" if isinstance(node, ast.Break) else "break"
        yield f"becomes {other_name}", offsets.span(node), other_name
    if _may_go(site):
        yield "statement removed", offsets.span(node), "pass"


def _may_go(site: Site) -> bool:
    """Whether the file can run without this statement, as far as its names tell."""
    node = site.node
    if isinstance(node, ast.AugAssign):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call) and not ast.unparse(node.value).startswith(
            "super().__init__"
        )
    if isinstance(node, ast.Return):
        return isinstance(site.parent, ast.If)
    if not isinstance(node, ast.Assign) or site.body is None:
        return False
    target = node.targets[0]
    if isinstance(target, ast.Subscript | ast.Attribute):
        return True
    return isinstance(target, ast.Name) and _is_bound_before(target, site.body)


def _is_bound_before(target: ast.Name, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    given = function.args
    names = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    if target.id in names:
        return True
    stores = (
        n for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    )
    return any(each.id == target.id and each.lineno < target.lineno for each in stores)
