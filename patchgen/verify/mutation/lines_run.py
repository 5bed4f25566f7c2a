"""Which lines of a file run?

Python tells of each line as it is reached.  What torch.compile runs, it reads from the byte code
instead: its reader tells of each line too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_Trace = Callable[[FrameType, str, Any], Any]


def _compiled(text: str, name: str) -> CodeType:
    return compile(text, name, "exec", dont_inherit=True)  # as Python imports it


def iterate_codes(code: CodeType) -> Iterator[CodeType]:
    """`code` and all that is defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from iterate_codes(constant)


def lines_of(code: CodeType) -> frozenset[int]:
    """The lines that a code object can be at, the line of its `def` left out."""
    lines = {line for _, _, line in code.co_lines() if line}
    return frozenset(lines - {code.co_firstlineno} if code.co_name != "<module>" else lines)


def find_executable_lines(text: str, name: str) -> frozenset[int]:
    """The lines of a file at which something runs, docstrings left out."""
    lines = {line for code in iterate_codes(_compiled(text, name)) for line in lines_of(code)}
    return frozenset(lines - _documented(ast.parse(text)))


def find_import_lines(text: str, name: str) -> frozenset[int]:
    """The lines that run when the file is imported: of no function."""
    whole = _compiled(text, name)
    inside = [code for code in iterate_codes(whole) if not _is_function(code)]
    return frozenset(line for code in inside for line in lines_of(code))


def refusals(tree: ast.Module) -> frozenset[int]:
    """The lines that only refuse what is given: `raise`, `assert`, and a block that ends so."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise | ast.Assert):
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if (
                isinstance(block, list)
                and block
                and isinstance(block[-1], ast.Raise)
                and not _is_def(node)
            ):
                found.update(range(block[0].lineno, (block[-1].end_lineno or 0) + 1))
    return frozenset(found)


@contextmanager
def watched(path: Path) -> Iterator[set[int]]:
    """A context; gives the set of the file's lines that run inside it, as it grows."""
    lines_run: set[int] = set()
    name = str(path)

    def line(frame: FrameType, event: str, given: Any) -> _Trace:
        if event == "line":
            lines_run.add(frame.f_lineno)
        return line

    def call(frame: FrameType, event: str, given: Any) -> _Trace | None:
        return line if frame.f_code.co_filename == name else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        with _compiler_watched(name, lines_run):
            yield lines_run
    finally:
        sys.settrace(before)


@contextmanager
def _compiler_watched(name: str, lines_run: set[int]) -> Iterator[None]:
    """Notes each line that torch.compile reads, where it has been loaded."""
    symbolic = sys.modules.get("torch._dynamo.symbolic_convert")
    reader: Any = getattr(symbolic, "InstructionTranslatorBase", None)
    starts_line = getattr(reader, "starts_line", None)
    if starts_line is None:
        yield
        return

    def noted(self: Any, line: int) -> None:
        if self.f_code.co_filename == name:
            lines_run.add(line)
        starts_line(self, line)

    reader.starts_line = noted
    try:
        yield
    finally:
        reader.starts_line = starts_line


def _is_def(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module)


def _is_function(code: CodeType) -> bool:
    return bool(code.co_flags & 0x2)  # CO_NEWLOCALS: a function's, and no class's or module's


def _documented(tree: ast.Module) -> set[int]:
    """The lines of docstrings and other bare strings."""
    strings = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    return {
        line
        for node in strings
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
