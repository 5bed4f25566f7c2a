"""Find the mixins of a part whose edits match the methods of a class.

The edits are read from the source of the part; the converter decides in the end.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import patchgen
from patchgen.author.anatomy.code import constant
from patchgen.compiler.edits.pattern import find


@dataclass(frozen=True, eq=False)
class Pattern:
    """The `with old:` block of an edit of `method`, its holes, and how often it must match."""

    method: str
    holes: frozenset[str]
    old: tuple[ast.stmt, ...]
    count: int = 1


@dataclass(frozen=True, eq=False)
class Mixin:
    """A class of a part, with the patterns of its edits and those of its bases."""

    name: str
    patterns: tuple[Pattern, ...]

    def fits(self, methods: Mapping[str, ast.FunctionDef]) -> bool:
        """Whether every edit fits the method that it names."""
        return bool(self.patterns) and all(
            one.method in methods
            and len(find(one.old, methods[one.method], one.holes)) == one.count
            for one in self.patterns
        )


@cache
def mixins(part: str) -> tuple[Mixin, ...]:
    """The public mixins of `patchgen.parts.PART`, those with the most edits first."""
    folder = Path(patchgen.__file__).parent / "parts"
    trees = _trees(part)
    own = public(part)
    nodes = [node for node in _classes(trees) if node.name in own]
    others = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.py"))]
    # A base may be of another part; of two classes with one name the part's own counts.
    bases = {node.name: node for node in (*_classes(others), *_classes(trees))}
    found = [Mixin(node.name, tuple(_patterns(node, bases))) for node in nodes]
    return tuple(sorted(found, key=lambda mixin: -len(mixin.patterns)))


def mixin(part: str, name: str) -> Mixin:
    return next(one for one in mixins(part) if one.name == name)


@cache
def _trees(part: str) -> list[ast.Module]:
    folder = Path(patchgen.__file__).parent / "parts"
    files = sorted((folder / part).glob("*.py")) or [folder / f"{part}.py"]
    return [ast.parse(path.read_text(encoding="utf-8")) for path in files if path.is_file()]


def _classes(trees: Sequence[ast.Module]) -> list[ast.ClassDef]:
    return [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]


@cache
def public(part: str) -> set[str]:
    """What `patchgen.parts.PART` has for variants: its `__all__`, or else its classes."""
    found: set[str] = set()
    for node in (node for tree in _trees(part) for node in tree.body):
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=elements)):
                found |= {str(constant(name)) for name in elements}
    return found or {node.name for node in _classes(_trees(part))}


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
