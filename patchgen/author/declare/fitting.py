"""Which mixins of a part fit a method: their edits, read from the part's source and tried on the method's statements.

The same rules as when the modular file is converted, on Python's own syntax trees: the converter has the last word.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import patchgen
from patchgen.author.anatomy.code import constant, statements_of, walk

Bound = Mapping[str, ast.AST]


@dataclass(frozen=True, eq=False)
class Pattern:
    """The `with old:` of an edit of `method`, with its holes and how often it must match."""

    method: str
    holes: frozenset[str]
    old: tuple[ast.stmt, ...]
    count: int = 1

    def fits(self, method: ast.FunctionDef) -> bool:
        """Whether it matches as often as it must."""
        return sum(1 for _ in self.places(method)) == self.count

    def places(self, method: ast.FunctionDef) -> Iterator[Bound]:
        """What the holes stand for in each place."""
        if len(self.old) == 1 and isinstance(self.old[0], ast.Expr) and not _is_dots(self.old[0]):
            for node in walk(method.body, ast.expr):
                if (bound := self._fit(self.old[0].value, node, {})) is not None:
                    yield bound
            return
        for suite in statements_of(method):
            for start in range(len(suite)):
                found = next(self._runs(self.old, suite, start, {}), None)
                if found is not None:
                    yield found[1]

    def _runs(
        self, pattern: Sequence[ast.stmt], suite: Sequence[ast.stmt], at: int, bound: Bound
    ) -> Iterator[tuple[int, Bound]]:
        if not pattern:
            yield at, bound
        elif _is_dots(pattern[0]):
            for stop in range(at, len(suite) + 1):
                yield from self._runs(pattern[1:], suite, stop, bound)
        elif at < len(suite) and (fit := self._fit(pattern[0], suite[at], bound)) is not None:
            yield from self._runs(pattern[1:], suite, at + 1, fit)

    def _fit(self, pattern: object, code: object, bound: Bound) -> Bound | None:
        if (
            isinstance(pattern, ast.Name)
            and pattern.id in self.holes
            and isinstance(code, ast.expr)
        ):
            known = bound.get(pattern.id)
            if known is None:
                return {**bound, pattern.id: code}
            return bound if ast.dump(known) == ast.dump(code) else None
        if (
            isinstance(pattern, ast.Call)
            and isinstance(code, ast.Call)
            and any(_is_ellipsis(a) for a in pattern.args)
        ):
            return self._fit_call(pattern, code, bound)
        if isinstance(pattern, ast.AST) and isinstance(code, ast.AST):
            if type(pattern) is not type(code):
                return None
            fields = [
                name for name in pattern._fields if name not in ("ctx", "type_comment", "kind")
            ]
            return self._fit_all(
                [getattr(pattern, f) for f in fields], [getattr(code, f) for f in fields], bound
            )
        if isinstance(pattern, list) and isinstance(code, list):
            if pattern and isinstance(pattern[0], ast.stmt):
                ends = self._runs(pattern, code, 0, bound)
                return next((fit for stop, fit in ends if stop == len(code)), None)
            return self._fit_all(pattern, code, bound)
        return bound if type(pattern) is type(code) and pattern == code else None

    def _fit_all(
        self, pattern: Sequence[object], code: Sequence[object], bound: Bound | None
    ) -> Bound | None:
        if len(pattern) != len(code):
            return None
        for one, other in zip(pattern, code, strict=True):
            bound = self._fit(one, other, bound) if bound is not None else None
        return bound

    def _fit_call(self, pattern: ast.Call, code: ast.Call, bound: Bound) -> Bound | None:
        fit = self._fit(pattern.func, code.func, bound)
        before = pattern.args[: next(n for n, arg in enumerate(pattern.args) if _is_ellipsis(arg))]
        if fit is None or len(code.args) < len(before):
            return None
        fit = self._fit_all(before, code.args[: len(before)], fit)
        for keyword in pattern.keywords:
            given = next((one.value for one in code.keywords if one.arg == keyword.arg), None)
            fit = (
                self._fit(keyword.value, given, fit)
                if fit is not None and given is not None
                else None
            )
        return fit


def _is_dots(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and _is_ellipsis(node.value)


def _is_ellipsis(node: ast.expr) -> bool:
    return constant(node) is Ellipsis


@dataclass(frozen=True, eq=False)
class Mixin:
    """A class of a part with the patterns of its edits, those of its bases included."""

    name: str
    patterns: tuple[Pattern, ...]

    def fits(self, methods: Mapping[str, ast.FunctionDef]) -> bool:
        """Whether every edit fits the method that it names."""
        return bool(self.patterns) and all(
            one.method in methods and one.fits(methods[one.method]) for one in self.patterns
        )


def mixins(part: str) -> tuple[Mixin, ...]:
    """The public mixins of `patchgen.parts.PART`, those that ask for more first."""
    folder = Path(patchgen.__file__).parent / "parts"
    files = sorted((folder / part).glob("*.py")) or [folder / f"{part}.py"]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    classes = {
        node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)
    }
    public = {name for tree in trees for name in _public(tree)} or set(classes)
    found = [
        Mixin(name, tuple(_patterns(node, classes)))
        for name, node in classes.items()
        if name in public
    ]
    return tuple(sorted(found, key=lambda mixin: -len(mixin.patterns)))


def _public(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=names)):
                yield from (str(constant(name)) for name in names)


def _patterns(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> Iterator[Pattern]:
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes:
            yield from _patterns(classes[base.id], classes)
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and (pattern := _pattern(method)) is not None:
            yield pattern


def _pattern(method: ast.FunctionDef) -> Pattern | None:
    for decorator in method.decorator_list:
        match decorator:
            case ast.Call(
                func=ast.Name(id="edit"), args=[ast.Constant(value=str(name))], keywords=keywords
            ):
                count = next((constant(k.value) for k in keywords if k.arg == "count"), 1)
                holes = {
                    arg.arg
                    for arg in method.args.args
                    if ast.unparse(arg.annotation or arg) == "Hole"
                }
                old = next(
                    (
                        n.body
                        for n in method.body
                        if isinstance(n, ast.With) and ast.unparse(n.items[0]) == "old"
                    ),
                    [],
                )
                return Pattern(
                    name, frozenset(holes), tuple(old), count if isinstance(count, int) else 1
                )
    return None
