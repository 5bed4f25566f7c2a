"""The fork as it is read: formatted, so that tabs and layouts of its own do not matter."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from patchgen.author.adopt.acts import without_acts
from patchgen.author.align.file import File, read_file
from patchgen.compiler.flat import BANNER
from patchgen.compiler.settings import Settings
from patchgen.formatting.format import format_texts
from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import Location, PatchgenError, Problem
from patchgen.syntax.text import make_source, parse, read_source
from patchgen.syntax.trees import Function

_MADE = re.compile(rf"^# {re.escape(BANNER)} (\S+)\. Do not edit", re.MULTILINE)

_COMPREHENSIONS = ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp
_SCOPES = Function | ast.ClassDef | ast.Lambda | _COMPREHENSIONS


def read_fork(
    path: Path, display_path: str, settings: Settings, *, generated: bool = False
) -> File:
    """The fork at `path`; `generated` takes an output of patchgen like any other file.

    Raises PatchgenError PG805 for an output of patchgen, PG001 to PG006 for what cannot be read or
    is not Python, and PG806 for a file without a class.
    """
    source = read_source(path, display_path=display_path)
    banner = _MADE.search(source.text)
    if banner is not None and not generated:
        at = Location(display_path, 1, 1)
        what = f"is generated from {banner[1]}"
        raise PatchgenError("PG805", at, what, "edit that file instead")
    parse(source)
    text = format_texts({"fork.py": source.text}, settings)["fork.py"]
    fork = without_acts(read_file(make_source(with_plain_super(text), display_path)))
    if not fork.classes:
        what = "is no fork of a modeling file: it has no class"
        hint = "name the file with the model's classes"
        raise PatchgenError("PG806", Location(display_path), what, hint)
    if fork.left:
        written = [node for node in ast.walk(parse(source)) if isinstance(node, ast.stmt)]
        lines = {ast.unparse(node): node.lineno for node in written}
        for node in fork.left:
            node.lineno = lines.get(ast.unparse(node), node.lineno)
    return fork


def with_plain_super(text: str) -> str:
    """`super(Toy, self)` in a method of `Toy` as `super()`, which is the same there."""
    lines = text.split("\n")
    for owner in ast.parse(text).body:
        if not isinstance(owner, ast.ClassDef):
            continue
        for method in owner.body:
            if not isinstance(method, Function) or not method.args.args:
                continue
            long = f"super({owner.name}, {method.args.args[0].arg})"
            for call in _own_calls(method):
                if ast.unparse(call) == long:
                    line = call.lineno - 1
                    lines[line] = lines[line].replace(long, "super()")
    return "\n".join(lines)


def _own_calls(node: ast.AST) -> Iterator[ast.Call]:
    """The calls in a method, but not in functions and comprehensions inside it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _SCOPES):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from _own_calls(child)


def place_in_fork(
    problems: Iterable[Problem], declared: str, alias: str, path: Path, display_path: str
) -> tuple[Problem, ...]:
    """Problems of a declaration at the lines of the fork that they are about.

    What stands only in the declaration, or in transformers, stays where it is.
    """
    lines: dict[str, int] = {}
    for node in ast.walk(parse(read_source(path))):
        if isinstance(node, ast.stmt):
            for text in _said(node):
                lines.setdefault(text, node.lineno)
    written = [node for node in ast.walk(ast.parse(declared)) if isinstance(node, ast.stmt)]

    def line_in_fork(line: int) -> int:
        # The innermost statement is the last in the order of `walk`.
        for node in reversed(written):
            if first_line(node) <= line <= (node.end_lineno or 0):
                for text in _said(node):
                    if there := lines.get(text.replace(f"{alias}.", "")):
                        return there
        return 0

    placed: list[Problem] = []
    for problem in problems:
        is_declared = problem.at.path.rpartition("/")[2].startswith("modular_")
        line = line_in_fork(problem.at.line) if is_declared else 0
        if line:
            problem = replace(problem, at=Location(display_path, line, 1))
        placed.append(problem)
    return tuple(placed)


def _said(node: ast.stmt) -> list[str]:
    """What a statement is found by: each name that it imports, its name, or its text."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [f"import {ast.unparse(alias)}" for alias in node.names]
    if isinstance(node, ast.ClassDef | Function):
        return [f"def {node.name}"]
    return [ast.unparse(node)]
