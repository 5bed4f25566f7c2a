"""Proof that a generated module stands alone: it compiles, its names are bound, its calls fit, it changes something.

What is wrong here is wrong in the modular file, or in patchgen; either way nothing is written.
"""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Iterator

from patchgen.compiler.emit.calls import find_misfits
from patchgen.compiler.flat import LineOrigin
from patchgen.errors import Location, Problem, did_you_mean
from patchgen.syntax.scopes import bound_names, references

_KNOWN = frozenset(dir(builtins)) | {
    "__name__",
    "__file__",
    "__doc__",
    "__package__",
    "__spec__",
    "__class__",
}


def validate(
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
        return (
            Problem(
                at, "PG404", f"the generated module does not compile: {error}", "please report this"
            ),
        )
    if base is not None and ast.dump(ast.parse(text)) == ast.dump(ast.parse(base)):
        hint = "declare what the variant changes, or delete the modular file"
        return (Problem(declared, "PG408", "the generated code equals its parent's", hint),)
    found = {*_unbound(text, lines, modular, base), *_misfits(text, lines, modular, base)}
    return tuple(
        sorted({*found, *_tool_imports(text, modular), *_no_such_layers(text, lines, modular)})
    )


def _tool_imports(text: str, modular: str) -> Iterator[Problem]:
    """A generated file is read and copied without patchgen, so it may not import it."""
    for node in ast.walk(ast.parse(text)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        for name in names:
            if name.partition(".")[0] == "patchgen":
                hint = "name what is needed of it: classes and functions of patchgen.parts are carried into the file"
                yield Problem(
                    Location(modular), "PG407", f"the generated module would import {name}", hint
                )


def _unbound(
    text: str, lines: tuple[LineOrigin, ...], modular: str, base: str | None
) -> Iterator[Problem]:
    known = {unbound for unbound, _ in _unbound_names(base)} if base is not None else set()
    for unbound, line in _unbound_names(text):
        if unbound not in known:
            at = _near(line, lines, modular)
            yield Problem(
                at, "PG402", f"the name {unbound} is bound by nothing", "import or define it"
            )


def _unbound_names(text: str) -> Iterator[tuple[str, int]]:
    tree = ast.parse(text)
    bound = {*bound_names(tree.body), *_KNOWN}
    bound |= {n for node in ast.walk(tree) if isinstance(node, ast.Global) for n in node.names}
    if "*" not in bound:
        yield from ((r.name, r.line) for r in references(tree.body) if r.name not in bound)


def _misfits(
    text: str, lines: tuple[LineOrigin, ...], modular: str, base: str | None
) -> Iterator[Problem]:
    known = {(m.call, m.why) for m in find_misfits(base)} if base is not None else set()
    for misfit in find_misfits(text):
        if (misfit.call, misfit.why) not in known:
            at = _near(misfit.line, lines, modular)
            what = f"the call {misfit.call} does not fit: {misfit.callee} {misfit.why}"
            hint = "change the call, or keep the parameters that it passes"
            yield Problem(at, "PG406", what, hint, subject=(misfit.callee, misfit.why))


def _no_such_layers(text: str, lines: tuple[LineOrigin, ...], modular: str) -> Iterator[Problem]:
    """What the modular file names in `_no_split_modules`, and is no class of the flat file, nor imported by it.

    A model that is made from a configuration brings classes of its own; there nothing can be said.
    """
    if "_no_split_modules" not in text or _MAKES_MODELS.search(text):
        return
    tree = ast.parse(text)
    bound = set(bound_names(tree.body))
    for listed in (
        each for node in tree.body if isinstance(node, ast.ClassDef) for each in _unsplit(node)
    ):
        at, name = _near(listed.lineno, lines, modular), str(listed.value)
        if name not in bound and at.path == modular:
            what = f"_no_split_modules names {name}, and the flat file has no such class"
            yield Problem(at, "PG409", what, did_you_mean(name, bound) or "name a class of it")


_MAKES_MODELS = re.compile(r"\bAuto[A-Z]\w*|\bload_backbone\b")


def _unsplit(owner: ast.ClassDef) -> Iterator[ast.Constant]:
    """What its `_no_split_modules` lists, where that is written out."""
    for node in owner.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        listed = getattr(node, "value", None)
        if isinstance(target, ast.Name) and target.id == "_no_split_modules":
            if isinstance(listed, ast.List | ast.Set | ast.Tuple):
                yield from (each for each in listed.elts if isinstance(each, ast.Constant))


def _near(line: int, lines: tuple[LineOrigin, ...], modular: str) -> Location:
    """Where the generated `line` came from; for one that patchgen wrote, the last one above it that has an origin."""
    above = [part for part in lines if part.first <= line]
    if not above:
        return Location(modular, 1, 1)
    part = max(above, key=lambda part: part.first)
    return Location(part.path, part.line + min(line, part.last) - part.first, 1)
