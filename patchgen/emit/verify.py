"""Proof that a generated module stands alone: it compiles, its names are bound, its calls fit, it changes something.

What is wrong here is wrong in the modular file, or in patchgen; either way nothing is written.
"""

from __future__ import annotations

import ast
import builtins
import warnings
from collections.abc import Iterator

from patchgen.emit.calls import misfits
from patchgen.errors import Location, Problem
from patchgen.flat import LineOrigin
from patchgen.source.scopes import bound_names, references

_KNOWN = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__", "__package__", "__spec__", "__class__"}


def verify(
    name: str,
    text: str,
    lines: tuple[LineOrigin, ...],
    declared: Location,
    base: str | None = None,
) -> tuple[Problem, ...]:
    """What is wrong with the generated `text`, at the lines that it came from where they are known.

    `declared` is where the modular file begins to say what is in it: the place of what concerns the whole.  What is
    as wrong in `base`, the parent made comparable, is upstream's and not reported.
    """
    modular = declared.path
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        at = _near(getattr(error, "lineno", 1) or 1, lines, modular)
        return (Problem(at, "PG404", f"the generated module does not compile: {error}", "please report this"),)
    if base is not None and ast.dump(ast.parse(text)) == ast.dump(ast.parse(base)):
        hint = "declare what the variant changes, or delete the modular file"
        return (Problem(declared, "PG408", "the generated code equals its parent's", hint),)
    found = {*_unbound(text, lines, modular, base), *_misfits(text, lines, modular, base)}
    return tuple(sorted({*found, *_tool_imports(text, modular)}))


def _tool_imports(text: str, modular: str) -> Iterator[Problem]:
    """A generated file is read and copied without patchgen, so it may not import it."""
    for node in ast.walk(ast.parse(text)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        for name in names:
            if name.partition(".")[0] == "patchgen":
                hint = "name what is needed of it: classes and functions of patchgen.parts are carried into the file"
                yield Problem(Location(modular), "PG407", f"the generated module would import {name}", hint)


def _unbound(text: str, lines: tuple[LineOrigin, ...], modular: str, base: str | None) -> Iterator[Problem]:
    known = {unbound for unbound, _ in _unbound_names(base)} if base is not None else set()
    for unbound, line in _unbound_names(text):
        if unbound not in known:
            at = _near(line, lines, modular)
            yield Problem(at, "PG402", f"the name {unbound} is bound by nothing", "import or define it")


def _unbound_names(text: str) -> Iterator[tuple[str, int]]:
    tree = ast.parse(text)
    bound = {*bound_names(tree.body), *_KNOWN}
    bound |= {n for node in ast.walk(tree) if isinstance(node, ast.Global) for n in node.names}
    if "*" not in bound:
        yield from ((r.name, r.line) for r in references(tree.body) if r.name not in bound)


def _misfits(text: str, lines: tuple[LineOrigin, ...], modular: str, base: str | None) -> Iterator[Problem]:
    known = {(m.call, m.why) for m in misfits(base)} if base is not None else set()
    for misfit in misfits(text):
        if (misfit.call, misfit.why) not in known:
            at = _near(misfit.line, lines, modular)
            what = f"the call {misfit.call} does not fit: {misfit.callee} {misfit.why}"
            yield Problem(at, "PG406", what, "change the call, or keep the parameters that it passes")


def _near(line: int, lines: tuple[LineOrigin, ...], modular: str) -> Location:
    """Where the generated `line` came from; for one that patchgen wrote, the last one above it that has an origin."""
    above = [part for part in lines if part.first <= line]
    if not above:
        return Location(modular, 1, 1)
    part = max(above, key=lambda part: part.first)
    return Location(part.path, part.line + min(line, part.last) - part.first, 1)
