"""The edits of the parts, read from their source, and the text of new ones.

A mixin of a part fits a class whose methods its edits match; the converter decides in the end.
"""

from __future__ import annotations

import ast
import builtins
import copy
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import patchgen
from patchgen import disk
from patchgen.author.anatomy.code import constant, names, stored, walk
from patchgen.author.anatomy.module import Module
from patchgen.compiler.edits.pattern import find
from patchgen.syntax.bound import parameters
from patchgen.syntax.trees import list_positional, names_within

# A modular file imports these under the same names as the parent.
OUTSIDE = {"torch", "nn", "math", "F", *vars(builtins)}


@dataclass(frozen=True, eq=False)
class Pattern:
    """The `with old:` block of an edit of `method`, its holes, and how often it must match."""

    method: str
    holes: frozenset[str]
    old: tuple[ast.stmt, ...]
    count: int


@dataclass(frozen=True, eq=False)
class Mixin:
    """A class of a part, with the patterns of its edits and those of its bases."""

    name: str
    patterns: tuple[Pattern, ...]

    def fits(self, methods: Mapping[str, ast.FunctionDef]) -> bool:
        """Whether every edit fits the method that it names."""
        return bool(self.patterns) and all(
            pattern.method in methods
            and len(find(pattern.old, methods[pattern.method], pattern.holes)) == pattern.count
            for pattern in self.patterns
        )


@cache
def mixins(part: str) -> tuple[Mixin, ...]:
    """The public mixins of `patchgen.parts.PART`, those with the most edits first."""
    own = {node.name: node for node in _statements(part) if isinstance(node, ast.ClassDef)}
    # A base may be of another part; of two classes with one name the part's own counts.
    everything = _statements("**")
    bases = {node.name: node for node in everything if isinstance(node, ast.ClassDef)} | own
    names = [name for name in own if name in public(part)]
    found = [Mixin(name, tuple(_patterns(own[name], bases))) for name in names]
    return tuple(sorted(found, key=lambda mixin: -len(mixin.patterns)))


def mixin(part: str, name: str) -> Mixin:
    return next(mixin for mixin in mixins(part) if mixin.name == name)


@cache
def _statements(part: str) -> Sequence[ast.stmt]:
    folder = Path(patchgen.__file__).parent / "parts"
    files = sorted(folder.glob(f"{part}/*.py")) or [folder / f"{part}.py"]
    return [node for path in files for node in ast.parse(disk.text_of(path)).body]


@cache
def public(part: str) -> set[str]:
    """What `patchgen.parts.PART` has for variants: its `__all__`, or else all that it defines."""
    listed: set[str] = set()
    defined: set[str] = set()
    for node in _statements(part):
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=elements)):
                listed |= {str(constant(name)) for name in elements}
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                defined.add(name)
    return listed or defined


def _patterns(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> Iterator[Pattern]:
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in classes:
            yield from _patterns(classes[base.id], classes)
    for method in node.body:
        match method:
            case ast.FunctionDef(
                decorator_list=[
                    *_,
                    ast.Call(
                        func=ast.Name(id="edit"), args=[ast.Constant(value=str(name))]
                    ) as call,
                ]
            ):
                arguments = method.args.args
                holes = {a.arg for a in arguments if getattr(a.annotation, "id", "") == "Hole"}
                blocks = [n for n in method.body if isinstance(n, ast.With)]
                old = [n for block in blocks[:1] for n in block.body]  # the first is `with old:`
                count = next((constant(keyword.value) for keyword in call.keywords), 1)
                assert isinstance(count, int)
                yield Pattern(name, frozenset(holes), tuple(old), count)


def code(
    module: Module, method: ast.FunctionDef, node: ast.AST | str, imported: Sequence[str] = ()
) -> str:
    """The code of `node` for an edit of `method`: `rotate` of the parent becomes `llama.rotate`.

    The modular file imports the names in `imported`.
    """
    tree = ast.parse(node) if isinstance(node, str) else copy.deepcopy(node)
    bare = {*parameters(method), *stored(method.body), *OUTSIDE, *imported}
    for name in names_within(tree):
        if name.id not in bare:
            name.id = f"{module.alias}.{name.id}"  # unparse writes it as it stands
    return ast.unparse(tree)


def edit(
    name: str,
    method: ast.FunctionDef,
    old: Sequence[str],
    new: Sequence[str],
    holes: Sequence[str] = (),
    count: int = 1,
) -> str:
    """An edit of `method` from `old` to `new`, statement by statement."""
    read: set[str] = set()  # before they are bound, by the order of the text
    bound = {"self", *holes}
    for statement in walk(map(ast.parse, (*old, *new)), ast.stmt):
        inside = [n for n in ast.iter_child_nodes(statement) if not isinstance(n, ast.stmt)]
        read |= names(inside) - bound
        bound |= stored(inside)
    literal = sorted(read & {*parameters(method), *stored(method.body)})
    signature = ", ".join(["self", *literal, *(f"{hole}: Hole" for hole in holes)])
    times = f", count={count}" if count > 1 else ""
    lines = [f'@edit("{method.name}"{times})', f"def {name}({signature}):"]
    for word, texts in (("old", old), ("new", new)):
        lines.append(f"    with {word}:")
        lines += [textwrap.indent(text, " " * 8) for text in texts]
    return "\n".join(lines)


def indented(lines: Iterable[str]) -> str:
    """The lines as the body of a statement."""
    return textwrap.indent("\n".join(lines), "    ")


def init_lines(init: ast.FunctionDef) -> list[str]:
    """The first lines of an `__init__` that goes on after the parent's `init`."""
    bare = [ast.arg(arg.arg) for arg in list_positional(init.args)]
    signature = ast.arguments([], bare, None, [], [], None, init.args.defaults)
    passed = ", ".join(arg.arg for arg in bare[1:])
    return [f"def __init__({ast.unparse(signature)}):", f"    super().__init__({passed})"]
