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
from collections.abc import Iterator, Sequence
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
from patchgen.compiler.plan.declare import Declaration
from patchgen.compiler.plan.model import Symbol
from patchgen.project.cache import Cache
from patchgen.project.files import MODULAR, STRICT, make_modular
from patchgen.project.flattening import flatten_group
from patchgen.project.outcome import files_of
from patchgen.syntax.errors import PatchgenError, Problem
from patchgen.syntax.same import Function
from patchgen.syntax.trees import parse_class

OPEN = "patchgen.open"
_PAUSE = 0.3  # seconds without a key, after which the text is read
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
    if (
        ls.workspace.get_text_document(event.text_document.uri).version
        == event.text_document.version
    ):
        _publish(ls, event.text_document.uri)


def _publish(ls: LanguageServer, uri: str) -> None:
    document = ls.workspace.get_text_document(uri)
    path = Path(document.path)
    if not MODULAR.fullmatch(path.name):
        return
    problems, own = _check(path, document.source)
    diagnostics = [_diagnose(problem, own, document.lines) for problem in problems]
    ls.text_document_publish_diagnostics(
        types.PublishDiagnosticsParams(uri, diagnostics, document.version)
    )


def _check(path: Path, text: str) -> tuple[tuple[Problem, ...], str]:
    """The problems and warnings of `text` in the place of `path`, whose display path is given."""
    project = open_project(Request((str(path),)))
    with staged(project, path, text.encode()) as (moved, copy):
        modular = make_modular(moved, copy)
        (outcome,) = flatten_group(Cache(moved, on=False), STRICT, [modular])
    warnings = [warning for output in outcome.outputs for warning in output.warnings]
    return (*outcome.problems, *warnings), modular.display_path


def _diagnose(problem: Problem, own: str, lines: Sequence[str]) -> types.Diagnostic:
    # What stands in a parent is shown at the top of the file that brings it.
    line = max(problem.at.line - 1, 0) if problem.at.path == own else 0
    text = lines[line].rstrip("\n") if line < len(lines) else ""
    start = min(max(problem.at.column - 1, 0), len(text)) if problem.at.path == own else 0
    said = [problem.what, *([problem.hint] if problem.hint else [])]
    severity = types.DiagnosticSeverity
    return types.Diagnostic(
        types.Range(types.Position(line, start), types.Position(line, len(text))),
        "\n".join(said),
        severity.Warning if problem.severity == "warning" else severity.Error,
        problem.code,
        source="patchgen",
    )


@server.feature(types.TEXT_DOCUMENT_DEFINITION)
def go_to_parent(ls: LanguageServer, params: types.DefinitionParams) -> list[types.Location] | None:
    """The parent's method for one that overrides or edits it; else the parent's class."""
    document = ls.workspace.get_text_document(params.text_document.uri)
    steps = _link(Path(document.path), document.source)
    if steps is None:
        return None
    line = params.position.line + 1
    for node in _statements(document.source):
        if isinstance(node, ast.ClassDef) and node.lineno <= line <= (node.end_lineno or 0):
            methods = [inner for inner in node.body if isinstance(inner, Function)]
            names = [
                _overridden(method)
                for method in methods
                if min([method, *method.decorator_list], key=lambda n: n.lineno).lineno
                <= line
                <= (method.end_lineno or 0)
            ]
            places = list(_find_in_parents(steps, node.name, names[0] if names else ""))
            return places[:1] or list(_find_in_parents(steps, node.name, ""))[:1]
    return None


def _statements(text: str) -> list[ast.stmt]:
    """The statements of `text`; none where it is not Python yet."""
    try:
        return ast.parse(text).body
    except SyntaxError:
        return []


def _overridden(method: Function) -> str:
    """The method that `method` changes: its own name, or that in `@edit("forward")`."""
    for decorator in method.decorator_list:
        match decorator:
            case ast.Call(func=ast.Name("edit"), args=[ast.Constant(str(name)), *_]):
                return name
    return method.name


def _find_in_parents(steps: Steps, owner: str, member: str) -> Iterator[types.Location]:
    """Where parents of the class `owner` define `member`, or stand themselves; nearest first."""
    declaration = _declaration(steps, owner)
    if declaration is None:
        return
    for symbol in find_ancestors(declaration, steps.builder):
        block = steps.builder.index(symbol.module).definition(symbol.name)
        path = steps.builder.naming.bindings.env.path(symbol.module)
        if block is None or path is None or block.kind != "class":
            continue
        members = parse_class(block.text).body if member else []
        lines = [node.lineno for node in members if getattr(node, "name", "") == member]
        if lines or not member:
            line = block.first - 1 + (lines[0] - 1 if lines else 0)
            start = types.Position(line, 0)
            yield types.Location(uris.from_fs_path(str(path)) or "", types.Range(start, start))


def _declaration(steps: Steps, owner: str) -> Declaration | None:
    plan = steps.builder.naming.plan
    return plan.declaration(Symbol(plan.modular.source.module, owner))


_LINKED: dict[Path, Steps] = {}  # what each file was when it was last without an error


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
    steps = _link(path, document.source)
    for node in _statements(document.source) if steps else ():
        if isinstance(node, ast.ClassDef) and steps is not None:
            for place in list(_find_in_parents(steps, node.name, ""))[:1]:
                line = place.range.start.line
                lenses.append(_lens(node.lineno - 1, "parent", place.uri, line))
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
