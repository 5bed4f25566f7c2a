"""`patchgen lsp`: what editors show of modular files.

    class LlamaMLP(llama.LlamaMLP):     flat file | diff | llama.LlamaMLP       lenses
        @edit("forward")                go to definition: LlamaMLP.forward of transformers
        def clamp(self, gate: Hole):
            with old:
                self.act_fn(gat)        PG303 nothing matches                   as you type

A text that is not saved is read as if it were: the project is not changed.
"""

from __future__ import annotations

import ast
import asyncio
import itertools
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

import patchgen
from patchgen.cli.session import Request, open_project
from patchgen.cli.stdin import staged
from patchgen.compiler.flatten import Steps, link_file
from patchgen.compiler.link.unused import find_ancestors
from patchgen.compiler.plan.model import Symbol
from patchgen.project.cache import Cache
from patchgen.project.files import MODULAR, STRICT, make_modular
from patchgen.project.flattening import flatten_group
from patchgen.project.outcome import files_of
from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import PatchgenError, Problem
from patchgen.syntax.same import Function
from patchgen.syntax.shown import shown
from patchgen.syntax.trees import parse_class

OPEN = "patchgen.open"
_PAUSE = 0.3  # seconds without a key, after which the text is read
_REMEMBERED = 20  # texts; the next one takes as long as the first
_LOOKS = itertools.count(1)
_LINKED: dict[Path, Steps] = {}  # what each file was when it was last without an error
server = LanguageServer("patchgen", patchgen.__version__)


@server.feature(types.TEXT_DOCUMENT_DID_OPEN)
@server.feature(types.TEXT_DOCUMENT_DID_SAVE)
def look(
    ls: LanguageServer, event: types.DidOpenTextDocumentParams | types.DidSaveTextDocumentParams
) -> None:
    """Publish what is wrong with a file."""
    _publish(ls, event.text_document.uri)


@server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
async def follow(ls: LanguageServer, event: types.DidChangeTextDocumentParams) -> None:
    """Publish what is wrong with a text, once its writer pauses."""
    await asyncio.sleep(_PAUSE)
    uri, version = event.text_document.uri, event.text_document.version
    if ls.workspace.get_text_document(uri).version == version:
        _publish(ls, uri)


def _publish(ls: LanguageServer, uri: str) -> None:
    document = ls.workspace.get_text_document(uri)
    path = Path(document.path)
    if not MODULAR.fullmatch(path.name):
        return
    if next(_LOOKS) % _REMEMBERED == 0:
        _forget()
    project = open_project(Request((str(path),)))
    with staged(project, path, document.source.encode()) as (moved, copy):
        modular = make_modular(moved, copy)
        (outcome,) = flatten_group(Cache(moved, on=False), STRICT, [modular])
    warnings = [warning for output in outcome.outputs for warning in output.warnings]
    problems = [*outcome.problems, *warnings]
    diagnostics = [_diagnose(p, modular.display_path, document.lines) for p in problems]
    ls.text_document_publish_diagnostics(
        types.PublishDiagnosticsParams(uri, diagnostics, document.version)
    )


def _forget() -> None:
    """Empty what is remembered of texts: of those that were typed, none comes again."""
    for name, module in [*sys.modules.items()]:
        if name.startswith("patchgen."):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def _diagnose(problem: Problem, path: str, lines: Sequence[str]) -> types.Diagnostic:
    # What is wrong with another file is shown at the top of this one.
    line, column = 0, 0
    if problem.at.path == path:
        line, column = max(problem.at.line - 1, 0), max(problem.at.column - 1, 0)
    text = lines[line].rstrip("\n") if line < len(lines) else ""
    is_warning = problem.severity == "warning"
    return types.Diagnostic(
        types.Range(types.Position(line, min(column, len(text))), types.Position(line, len(text))),
        shown(f"{problem.message}\n{problem.hint}".rstrip()),
        types.DiagnosticSeverity.Warning if is_warning else types.DiagnosticSeverity.Error,
        problem.code,
        source="patchgen",
    )


@server.feature(types.TEXT_DOCUMENT_DEFINITION)
def go_to_parent(ls: LanguageServer, params: types.DefinitionParams) -> list[types.Location] | None:
    """The parent's method for one that overrides or edits it; else the parent's class."""
    document = ls.workspace.get_text_document(params.text_document.uri)
    steps = _link(Path(document.path), document.source)
    line = params.position.line + 1
    if steps is None:
        return None
    for node in _classes(document.source):
        if node.lineno <= line <= (node.end_lineno or 0):
            names = [
                _overridden(method)
                for method in node.body
                if isinstance(method, Function)
                and first_line(method) <= line <= (method.end_lineno or 0)
            ]
            method = _find_in_parents(steps, node.name, names[0]) if names else []
            return method or _find_in_parents(steps, node.name)
    return None


def _classes(text: str) -> list[ast.ClassDef]:
    """The classes of `text`; none where it is not Python yet."""
    try:
        return [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    except SyntaxError:
        return []


def _overridden(method: Function) -> str:
    """The method that `method` changes: its own name, or that in `@edit("forward")`."""
    for decorator in method.decorator_list:
        match decorator:
            case ast.Call(func=ast.Name("edit"), args=[ast.Constant(str(name)), *_]):
                return name
    return method.name


def _find_in_parents(steps: Steps | None, owner: str, member: str = "") -> list[types.Location]:
    """Where the nearest parent of the class `owner` defines `member`, or stands itself."""
    if steps is None:
        return []
    plan = steps.builder.naming.plan
    declaration = plan.declaration(Symbol(plan.modular.source.module, owner))
    if declaration is None:
        return []
    for symbol in find_ancestors(declaration, steps.builder):
        block = steps.builder.index(symbol.module).definition(symbol.name)
        path = steps.builder.naming.bindings.env.path(symbol.module)
        if block is None or path is None or block.kind != "class":
            continue
        members = parse_class(block.text).body if member else []
        lines = [node.lineno for node in members if getattr(node, "name", "") == member]
        if lines or not member:
            start = types.Position(block.first - 1 + (lines[0] - 1 if lines else 0), 0)
            uri = uris.from_fs_path(str(path)) or ""
            return [types.Location(uri, types.Range(start, start))]
    return []


def _link(path: Path, text: str) -> Steps | None:
    """The linked text; of one with an error, what it was before, or None."""
    if not MODULAR.fullmatch(path.name):
        return None
    project = open_project(Request((str(path),)))
    with staged(project, path, text.encode()) as (moved, copy), suppress(PatchgenError):
        _LINKED[path] = link_file(copy, moved.environment(), moved.config.settings)
    return _LINKED.get(path)


@server.feature(types.TEXT_DOCUMENT_CODE_LENS)
def show_lenses(ls: LanguageServer, params: types.CodeLensParams) -> list[types.CodeLens]:
    """Lenses that open the outputs, above the file, and the parents, above each class."""
    document = ls.workspace.get_text_document(params.text_document.uri)
    path = Path(document.path)
    steps = _link(path, document.source)
    if not MODULAR.fullmatch(path.name):
        return []
    project = open_project(Request((str(path),)))
    modular = make_modular(project, path)
    (outcome,) = flatten_group(Cache(project), STRICT, [modular])
    lenses = []
    for output in outcome.outputs:
        for file, _ in files_of(modular, output):
            title = "diff" if file.suffix == ".diff" else f"flat file {file.name}"
            if file.is_file():
                lenses.append(_lens(0, title, uris.from_fs_path(str(file)) or "", 0))
    for node in _classes(document.source):
        for parent in _find_in_parents(steps, node.name):
            lenses.append(_lens(node.lineno - 1, "parent", parent.uri, parent.range.start.line))
    return lenses


def _lens(line: int, title: str, uri: str, target: int) -> types.CodeLens:
    at = types.Position(line, 0)
    return types.CodeLens(types.Range(at, at), types.Command(title, OPEN, None, [uri, target]))


@server.command(OPEN)
async def open_file(ls: LanguageServer, uri: str, line: int) -> None:
    """Let the editor show a file."""
    at = types.Position(line, 0)
    await ls.window_show_document_async(
        types.ShowDocumentParams(uri, take_focus=True, selection=types.Range(at, at))
    )
