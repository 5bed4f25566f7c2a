"""Find the mixins of a part whose edits match the methods of a class.

The edits are read from the source of the part and matched with the rules of the converter, but on
the syntax trees of Python.  The converter decides in the end.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import patchgen
from patchgen.author.anatomy.code import constant, statements_of, walk

Bound = Mapping[str, ast.AST]  # the code that each hole stands for
IGNORED_FIELDS = ("ctx", "type_comment", "kind")


@dataclass(frozen=True, eq=False)
class Pattern:
    """The `with old:` block of an edit of `method`, its holes, and how often it must match."""

    method: str
    holes: frozenset[str]
    old: tuple[ast.stmt, ...]
    count: int = 1

    def fits(self, method: ast.FunctionDef) -> bool:
        """Whether it matches as often as it must."""
        return sum(1 for _ in self.places(method)) == self.count

    def places(self, method: ast.FunctionDef) -> Iterator[Bound]:
        """The values of the holes in each place that matches."""
        if (
            len(self.old) == 1
            and isinstance(self.old[0], ast.Expr)
            and not _is_ellipsis_statement(self.old[0])
        ):
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
        elif _is_ellipsis_statement(pattern[0]):
            for stop in range(at, len(suite) + 1):
                yield from self._runs(pattern[1:], suite, stop, bound)
        elif at < len(suite) and (fit := self._fit(pattern[0], suite[at], bound)) is not None:
            yield from self._runs(pattern[1:], suite, at + 1, fit)

    def _fit(self, pattern: object, code: object, bound: Bound) -> Bound | None:
        """The values of the holes if `pattern` matches `code`, given those that are `bound`."""
        match pattern, code:
            case ast.Name(id=name), ast.expr() as expression if name in self.holes:
                return self._fit_hole(name, expression, bound)
            case ast.Call() as call, ast.Call() as other if any(map(_is_ellipsis, call.args)):
                return self._fit_call(call, other, bound)
            case ast.AST() as node, ast.AST() as other_node:
                return self._fit_node(node, other_node, bound)
            case list() as items, list() as others:
                if not items or not isinstance(items[0], ast.stmt):
                    return self._fit_all(items, others, bound)
                for stop, fit in self._runs(items, others, 0, bound):
                    if stop == len(others):
                        return fit
                return None
            case _:
                return bound if type(pattern) is type(code) and pattern == code else None

    def _fit_hole(self, name: str, code: ast.expr, bound: Bound) -> Bound | None:
        known = bound.get(name)
        if known is None:
            return {**bound, name: code}
        # A hole that occurs twice must stand for the same code.
        return bound if ast.dump(known) == ast.dump(code) else None

    def _fit_node(self, pattern: ast.AST, code: ast.AST, bound: Bound) -> Bound | None:
        if type(pattern) is not type(code):
            return None
        fields = [name for name in pattern._fields if name not in IGNORED_FIELDS]
        own = [getattr(pattern, name) for name in fields]
        others = [getattr(code, name) for name in fields]
        return self._fit_all(own, others, bound)

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
        given = {keyword.arg: keyword.value for keyword in code.keywords}
        for keyword in pattern.keywords:
            if fit is None or keyword.arg not in given:
                return None
            fit = self._fit(keyword.value, given[keyword.arg], fit)
        return fit


def _is_ellipsis_statement(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and _is_ellipsis(node.value)


def _is_ellipsis(node: ast.expr) -> bool:
    return constant(node) is Ellipsis


@dataclass(frozen=True, eq=False)
class Mixin:
    """A class of a part, with the patterns of its edits and those of its bases."""

    name: str
    patterns: tuple[Pattern, ...]

    def fits(self, methods: Mapping[str, ast.FunctionDef]) -> bool:
        """Whether every edit fits the method that it names."""
        return bool(self.patterns) and all(
            one.method in methods and one.fits(methods[one.method]) for one in self.patterns
        )


def mixins(part: str) -> tuple[Mixin, ...]:
    """The public mixins of `patchgen.parts.PART`, those with the most edits first."""
    folder = Path(patchgen.__file__).parent / "parts"
    own = sorted((folder / part).glob("*.py")) or [folder / f"{part}.py"]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in own]
    named = {name for tree in trees for name in _public(tree)}
    public = [node for node in _classes(trees) if not named or node.name in named]
    others = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.py"))]
    # A base may be of another part; of two classes with one name the part's own counts.
    bases = {node.name: node for node in (*_classes(others), *_classes(trees))}
    found = [Mixin(node.name, tuple(_patterns(node, bases))) for node in public]
    return tuple(sorted(found, key=lambda mixin: -len(mixin.patterns)))


def _classes(trees: Sequence[ast.Module]) -> list[ast.ClassDef]:
    return [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]


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
                given = {keyword.arg: constant(keyword.value) for keyword in keywords}
                count = given.get("count")
                times = count if isinstance(count, int) else 1
                return Pattern(name, _holes(method), _old_block(method), times)
    return None


def _holes(method: ast.FunctionDef) -> frozenset[str]:
    found = set()
    for arg in method.args.args:
        if arg.annotation is not None and ast.unparse(arg.annotation) == "Hole":
            found.add(arg.arg)
    return frozenset(found)


def _old_block(method: ast.FunctionDef) -> tuple[ast.stmt, ...]:
    """The statements of `with old:`."""
    for node in method.body:
        if isinstance(node, ast.With) and ast.unparse(node.items[0]) == "old":
            return tuple(node.body)
    return ()
