"""Which scope a name belongs to: tables, and Python's `symtable` as oracle for real functions."""

from __future__ import annotations

import ast
import symtable
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchgen.syntax.meanings import Occurrence, occurrences
from patchgen.syntax.scopes import references

SOURCES = Path(__file__).parents[3] / "patchgen"
NEWER = pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")


def function(text: str) -> ast.FunctionDef:
    (node,) = ast.parse(textwrap.dedent(text)).body
    assert isinstance(node, ast.FunctionDef)
    return node


def scope_of(name: str, text: str) -> list[str | None]:
    """The kind of scope that binds each occurrence of `name`."""
    found = [occurrence for occurrence in occurrences(function(text)) if occurrence.name == name]
    return [_kind(occurrence) for occurrence in found]


def _kind(occurrence: Occurrence) -> str | None:
    scope = occurrence.scope
    return None if scope is None else scope.kind if scope.outer else "itself"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(x): x", ["itself", "itself"]),
        ("def f(): x", [None]),
        ("def f():\n  x: int\n  x", ["itself", "itself"]),
        ("def f():\n  def g(): x\n  x = 1", ["itself", "itself"]),
        (
            "def f():\n  def g():\n    nonlocal x\n    x = 2\n  x = 1",
            ["itself", "itself", "itself"],
        ),
        ("def f():\n  global x\n  x = 1\n  def g(): x", [None, None, None]),
        ("def f(x):\n  def g():\n    global x\n    return x", ["itself", None, None]),
        (
            "def f():\n  class A:\n    x = 1\n    y = x\n    def g(self): x",
            ["class", "class", None],
        ),
        (
            "def f(x):\n  class A:\n    y = [x for x in x]",
            ["itself", "itself", "comprehension", "comprehension"],
        ),
        ("def f():\n  [(x := 1) for _ in ()]\n  x", ["itself", "itself"]),
        ("def f():\n  lambda: (x := 1)\n  x", ["function", None]),
        ("def f():\n  try: pass\n  except E as x: pass", ["itself"]),
        ("def f():\n  import x.y\n  import z as x", ["itself", "itself"]),
        ("def f(v):\n  match v:\n    case {'a': [*x], **y}: pass", ["itself"]),
        ("def f():\n  x += 1", ["itself"]),
        ("def f():\n  def x(x=x): x", ["itself", "itself", "function", "function"]),
    ],
)
def test_scopes(text: str, expected: list[str | None]) -> None:
    assert sorted(map(str, scope_of("x", text))) == sorted(map(str, expected))


@NEWER
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f():\n  def g[x](a: x) -> x: return x", ["type parameters"] * 4),
        ("def f():\n  class A[x](B[x]):\n    y = x", ["type parameters"] * 3),
        ("def f():\n  type x[T] = list[T]\n  x", ["itself", "itself"]),
        (
            "def f():\n  class A:\n    x = 1\n    def g[T](self) -> x: return x",
            ["class", "class", None],
        ),
    ],
)
def test_scopes_of_type_parameters(text: str, expected: list[str | None]) -> None:
    assert scope_of("x", text) == expected


@NEWER
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("class A[T: Bound](B[T]):\n  x: T\n  def f(self, a: T) -> T: return T", {"Bound", "B"}),
        ("class A:\n  L = list\n  def f[T](self, a: T, b=T) -> L: return L", {"list", "T", "L"}),
        ("type X[T] = dict[T, Y]", {"dict", "Y"}),
        ("def f[*Ts, **P](*a: *Ts, **k: P.kwargs) -> T: pass", {"T"}),
    ],
)
def test_globals_beside_type_parameters(text: str, expected: set[str]) -> None:
    assert {reference.name for reference in references(ast.parse(text).body)} == expected


@NEWER
def test_what_is_evaluated_late() -> None:
    found = references(ast.parse("class A[T: Bound](Base): pass\ntype X = Value").body)
    assert {reference.name: reference.eager for reference in found} == {
        "Bound": False,
        "Base": True,
        "Value": False,
    }


def functions(
    text: str,
) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, symtable.SymbolTable]]:
    """The functions at the top of a module and of its classes, each with Python's table of it."""
    table = symtable.symtable(text, "module", "exec")
    tables = {(child.get_name(), child.get_lineno()): child for child in _children(table)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = {node.lineno, *(decorator.lineno for decorator in node.decorator_list)}
            found = [
                tables[node.name, line] for line in sorted(lines) if (node.name, line) in tables
            ]
            if (
                found and node.name != "top"
            ):  # `symtable` takes a function of this name for a module
                yield node, found[0]


def _children(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        if child.get_type() == "function":
            yield child
        elif child.get_type() == "class":
            yield from _children(child)


def _globals_in(table: symtable.SymbolTable) -> set[str]:
    own = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    return own.union(*map(_globals_in, table.get_children()))


@pytest.mark.parametrize("path", sorted(SOURCES.glob("*/*.py")), ids=lambda path: path.stem)
def test_globals_are_those_of_python(path: Path) -> None:
    # Python does not look at annotations that are strings.
    text = path.read_text(encoding="utf-8").replace("from __future__ import annotations", "")
    for node, table in functions(text):
        found = {occurrence.name for occurrence in occurrences(node) if occurrence.scope is None}
        assert found - {"__class__"} == _globals_in(table) - {"__class__"}, node.name
