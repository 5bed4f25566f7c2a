"""Which lines of a variant's file are added or changed, and which of them run?

The diff that stands beside the flat file says which are changed, and `check` keeps the diff true.
Where there is none, the file is compared with the parent's.  Each statement on a changed line notes
itself as it is reached.  What torch.compile runs, it reads from the byte code instead: its reader
tells of each line.
"""

from __future__ import annotations

import ast
import difflib
import importlib.util
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os.path import commonprefix
from pathlib import Path
from types import CodeType
from typing import Any

from patchgen import disk
from patchgen.syntax.trees import Function
from patchgen.verifying.variants import Variant, find_added_lines


@dataclass(frozen=True, slots=True)
class FlatText:
    """The text of a variant's output, and the numbers of the lines that its parent has not."""

    path: Path
    text: str
    changed: frozenset[int]

    @property
    def name(self) -> str:
        return self.path.name

    def line(self, number: int) -> str:
        return self.text.split("\n")[number - 1]


def read_flat_text(variant: Variant) -> FlatText:
    """The output of `variant`, and what is changed in it."""
    path = variant.path
    text = disk.text_of(path)
    diff = path.with_suffix(".diff")
    if diff.is_file():
        changed = find_added_lines(disk.text_of(diff))
    else:
        changed = _unlike_parent(variant, text)
    return FlatText(path.resolve(), text, changed)


def source_of(module: str) -> str:
    """The text of a module of the parent; nothing where there is none."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return ""
    return disk.text_of(spec.origin) if spec and spec.origin else ""


def _unlike_parent(variant: Variant, text: str) -> frozenset[int]:
    """Where no diff is written, as for classes with names of their own: under the parent's."""
    parent = source_of(variant.parent)
    head = variant.heads[0]
    classes = re.findall(r"^class (\w+)", parent, re.MULTILINE)

    def same_ending(name: str) -> int:
        return len(commonprefix([name[::-1], head[::-1]]))

    # LlamaMoeForCausalLM is LlamaForCausalLM: what is left of both without their common ending.
    endings = [(same_ending(name), name) for name in (*classes, "")]
    ending, theirs = max(endings)
    own_prefix = head[:-ending]
    prefix = theirs[:-ending]
    pattern = rf"\b(_?){own_prefix}(?=[A-Z])"
    renamed = re.sub(pattern, rf"\g<1>{prefix}", text)
    their_lines = parent.split("\n")
    lines = renamed.split("\n")
    matcher = difflib.SequenceMatcher(None, their_lines, lines, autojunk=False)
    unlike = {*range(1, len(lines) + 1)}
    for _, first, size in matcher.get_matching_blocks():
        unlike.difference_update(range(first + 1, first + size + 1))
    return frozenset(unlike)


# --- what can run


def iterate_codes(code: CodeType) -> Iterator[CodeType]:
    """`code` and all that is defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from iterate_codes(constant)


def find_executable_lines(text: str, name: str) -> frozenset[int]:
    """The lines of a file at which something runs, docstrings left out."""
    lines = find_import_lines(text, name, functions=True)
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(ast.Constant(str())):
                lines = lines.difference(_range(node, node))
    return lines


def find_import_lines(text: str, name: str, *, functions: bool = False) -> frozenset[int]:
    """The lines that run at import, those of a `def` left out; or also those inside functions."""
    lines: set[int] = set()
    for code in iterate_codes(compile(text, name, "exec", dont_inherit=True)):
        if functions or not code.co_flags & 0x2:  # CO_NEWLOCALS: a function's
            own = {line for _, _, line in code.co_lines() if line}
            lines |= own if code.co_name == "<module>" else own - {code.co_firstlineno}
    return frozenset(lines)


def refusals(tree: ast.Module) -> frozenset[int]:
    """The lines that only refuse what is given: `raise`, `assert`, and a block that ends so."""
    lines: set[int] = set()
    definitions = Function | ast.ClassDef | ast.Module
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise | ast.Assert):
            lines.update(_range(node, node))
        if isinstance(node, definitions):
            continue
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[-1], ast.Raise):
                lines.update(_range(block[0], block[-1]))
    return frozenset(lines)


def _range(first: ast.stmt, last: ast.stmt) -> range:
    return range(first.lineno, (last.end_lineno or last.lineno) + 1)


# --- what runs

RAN = "__ran__"


def instrument(text: str, path: str, lines: Collection[int]) -> list[CodeType]:
    """The code of every function of `text`, in which each statement on `lines` notes itself.

    A tracer would be called for each function of torch too, which takes half as long again.
    """
    tree = _Noting(lines).visit(ast.parse(text))
    code = compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)
    return list(iterate_codes(code))


class _Noting(ast.NodeTransformer):
    """Puts `__ran__.update({7, 8})` before the statement that begins on line 7."""

    def __init__(self, lines: Collection[int]) -> None:
        self.lines = set(lines)
        self.is_in_function = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        was = self.is_in_function
        self.is_in_function = True
        self.generic_visit(node)
        self.is_in_function = was
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if self.is_in_function and not isinstance(node, ast.ClassDef):
            for name in ("body", "orelse", "finalbody"):
                statements = getattr(node, name, None)
                if isinstance(statements, list):
                    setattr(node, name, [new for old in statements for new in self._noted(old)])
        return node

    def _noted(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        body = getattr(statement, "body", None)
        # What is inside another statement notes itself.
        end = body[0].lineno if body else (statement.end_lineno or statement.lineno) + 1
        own = self.lines & {*range(statement.lineno, max(end, statement.lineno + 1))}
        if own:
            yield from ast.parse(f"{RAN}.update({own})").body
        yield statement


@contextmanager
def compiler_watched(name: str, lines_run: set[int]) -> Iterator[None]:
    """Notes each line of a file that torch.compile reads, where it has been loaded."""
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
