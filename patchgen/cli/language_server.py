"""`patchgen lsp`: what editors show of modular files.

    class LlamaMLP(llama.LlamaMLP):     flat file | diff | llama.LlamaMLP       lenses
        @edit("forward")                LlamaMLP.forward: its text, and where it stands
        def clamp(self, gate: Hole):
            with old:
                self.act_fn(gat)        PG303 nothing matches                   as you type

A text that is not saved is read as if it were: the project is not changed.
"""

from __future__ import annotations

import ast
import asyncio
import copy
import difflib
import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

from click import ClickException
from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer
from pygls.workspace import TextDocument

import patchgen
from patchgen.cli.origins import find_origin, find_source
from patchgen.cli.session import Request, open_project
from patchgen.cli.stdin import staged
from patchgen.compiler.flatten import Steps, link_file
from patchgen.compiler.link.unused import find_ancestors
from patchgen.compiler.plan.model import Symbol
from patchgen.project.cache import Cache
from patchgen.project.files import MODULAR, STRICT, make_modular
from patchgen.project.flattening import flatten_group
from patchgen.project.lock import load_records
from patchgen.project.outcome import files_of
from patchgen.syntax.blocks import Block, first_line
from patchgen.syntax.errors import PatchgenError, Problem
from patchgen.syntax.kept import forget_texts
from patchgen.syntax.shown import shown
from patchgen.syntax.trees import Function, parse_class

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
    uri = event.text_document.uri
    version = event.text_document.version
    if ls.workspace.get_text_document(uri).version == version:
        _publish(ls, uri)


def _publish(ls: LanguageServer, uri: str) -> None:
    document = ls.workspace.get_text_document(uri)
    path = Path(document.path)
    if not MODULAR.fullmatch(path.name):
        return
    if next(_LOOKS) % _REMEMBERED == 0:
        forget_texts()
    project = open_project(Request((str(path),)))
    with staged(project, path, document.source.encode()) as (moved, copy):
        modular = make_modular(moved, copy)
        (outcome,) = flatten_group(Cache(moved, on=False), STRICT, [modular])
    problems = [*outcome.problems, *outcome.warnings]
    diagnostics = [_diagnose(p, modular.display_path, document.lines) for p in problems]
    ls.text_document_publish_diagnostics(
        types.PublishDiagnosticsParams(uri, diagnostics, document.version)
    )


def _diagnose(problem: Problem, path: str, lines: Sequence[str]) -> types.Diagnostic:
    # What is wrong with another file is shown at the top of this one.
    line = 0
    column = 0
    if problem.at.path == path:
        line = max(problem.at.line - 1, 0)
        column = max(problem.at.column - 1, 0)
    text = lines[line].rstrip("\n") if line < len(lines) else ""
    width = len(text)
    begin = types.Position(line, min(column, width))
    severity = types.DiagnosticSeverity.Error
    if problem.severity == "warning":
        severity = types.DiagnosticSeverity.Warning
    return types.Diagnostic(
        types.Range(begin, types.Position(line, width)),
        shown(f"{problem.message}\n{problem.hint}".rstrip()),
        severity,
        problem.code,
        source="patchgen",
    )


@server.feature(types.TEXT_DOCUMENT_DEFINITION)
def go_to_parent(ls: LanguageServer, params: types.DefinitionParams) -> types.Location | None:
    """The parent's method for one that overrides or edits it; else the parent's class.

    In an output: the line of the modular file or of the parent that the line was made from.
    """
    document = ls.workspace.get_text_document(params.text_document.uri)
    found = _find_parent(document, params.position.line + 1)
    return found[0] if found else _go_to_origin(Path(document.path), params.position.line + 1)


def _go_to_origin(path: Path, line: int) -> types.Location | None:
    project = open_project(Request((str(path),)))
    record = load_records(project).get(path)
    if record is None:
        return None
    with suppress(PatchgenError, ClickException):
        if origin := find_origin(project, record, path, line):
            source = find_source(project, origin.path)
            return _at(source, origin.line) if source else None
    return None


_Definition = tuple[types.Location, str]  # where something stands, and its text


def _at(path: Path, line: int) -> types.Location:
    start = types.Position(line - 1, 0)
    return types.Location(uris.from_fs_path(str(path)) or "", types.Range(start, start))


@server.feature(types.TEXT_DOCUMENT_HOVER)
def show_parent(ls: LanguageServer, params: types.HoverParams) -> types.Hover | None:
    """The text of the parent's method or class."""
    document = ls.workspace.get_text_document(params.text_document.uri)
    found = _find_parent(document, params.position.line + 1)
    if found is None:
        return None
    text = f"```python\n{found[1]}\n```"
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text))


def _find_parent(document: TextDocument, line: int) -> _Definition | None:
    """What the class or method at `line` changes: where it stands, and its text."""
    steps = _link(Path(document.path), document.source)
    for node in _classes(document.source):
        if not node.lineno <= line <= (node.end_lineno or 0):
            continue
        for method in node.body:
            is_here = first_line(method) <= line <= (method.end_lineno or 0)
            if isinstance(method, Function) and is_here:
                member = _find_in_parents(steps, node.name, _overridden(method))
                return member or _find_in_parents(steps, node.name)
        return _find_in_parents(steps, node.name)
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


def _find_in_parents(steps: Steps | None, owner: str, member: str = "") -> _Definition | None:
    """Where the nearest parent of the class `owner` defines `member`, or stands itself."""
    for path, block in _find_classes(steps, owner):
        whole = parse_class(block.text)
        nodes = whole.body if member else [whole]
        for node in nodes:
            if member and getattr(node, "name", "") != member:
                continue
            first = first_line(node) - 1
            lines = block.text.split("\n")[first : node.end_lineno]
            place = _at(path, block.first + node.lineno - 1)
            return place, dedent("\n".join(lines))
    return None


def _find_classes(steps: Steps | None, owner: str) -> Iterator[tuple[Path, Block]]:
    """The parents of the class `owner`, the nearest first."""
    if steps is None:
        return
    builder = steps.builder
    plan = builder.plan
    declaration = plan.declaration(Symbol(plan.modular.source.module, owner))
    if not declaration:
        return
    for symbol in find_ancestors(declaration, builder):
        block = builder.index(symbol.module).definition(symbol.name)
        path = builder.bindings.env.path(symbol.module)
        if block and path and block.kind == "class":
            yield path, block


@server.feature(types.TEXT_DOCUMENT_COMPLETION)
def complete(ls: LanguageServer, params: types.CompletionParams) -> list[types.CompletionItem]:
    """The methods of the parents that the class does not have, where one is begun."""
    document = ls.workspace.get_text_document(params.text_document.uri)
    row = params.position.line
    lines = document.source.split("\n")
    begun = re.fullmatch(r"(\s+)(?:def +)?(\w*)", lines[row])
    if begun is None:
        return []
    # What is being written is no Python yet.
    lines[row] = f"{begun[1]}pass"
    text = "\n".join(lines)
    steps = _link(Path(document.path), text)
    methods: dict[str, Function] = {}
    for owner in _classes(text):
        if not owner.lineno <= row + 1 <= (owner.end_lineno or 0):
            continue
        for _, block in _find_classes(steps, owner.name):
            for node in parse_class(block.text).body:
                if isinstance(node, Function):
                    methods.setdefault(node.name, node)
        for member in owner.body:
            methods.pop(getattr(member, "name", ""), None)
    at = types.Range(types.Position(row, len(begun[1])), params.position)
    return [_offer(methods[name], at) for name in sorted(methods)]


def _offer(method: Function, at: types.Range) -> types.CompletionItem:
    arguments = copy.deepcopy(method.args)
    for node in ast.walk(arguments):
        if isinstance(node, ast.arg):
            node.annotation = None  # the modular file need not have its names
    header = f"def {method.name}({ast.unparse(arguments)}):"
    kind = types.CompletionItemKind.Method
    edit = types.TextEdit(at, header)
    word = f"def {method.name}"  # what editors compare with the text of the range
    return types.CompletionItem(
        method.name, None, kind, None, header, filter_text=word, text_edit=edit
    )


@server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
def outline(ls: LanguageServer, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    """The classes of a modular file with their methods, and what each edit changes."""
    document = ls.workspace.get_text_document(params.text_document.uri)
    is_modular = MODULAR.fullmatch(Path(document.path).name)
    return [_symbol(node) for node in _classes(document.source)] if is_modular else []


def _symbol(node: ast.ClassDef | Function) -> types.DocumentSymbol:
    first = types.Position(first_line(node) - 1, 0)
    last = types.Position((node.end_lineno or 0) - 1, 0)
    symbol = types.DocumentSymbol(
        node.name, types.SymbolKind.Method, types.Range(first, last), types.Range(first, last), ""
    )
    if isinstance(node, ast.ClassDef):
        symbol.kind = types.SymbolKind.Class
        symbol.detail = ", ".join(map(ast.unparse, node.bases))
        symbol.children = [_symbol(member) for member in node.body if isinstance(member, Function)]
    elif _overridden(node) != node.name:
        symbol.detail = f"edits {_overridden(node)}"
    return symbol


@server.feature(types.TEXT_DOCUMENT_CODE_ACTION)
def fix(ls: LanguageServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    """What a hint says that the writer may have meant, in the place of the word in question."""
    uri = params.text_document.uri
    lines = ls.workspace.get_text_document(uri).source.split("\n")
    kind = types.CodeActionKind.QuickFix
    actions = []
    for diagnostic in params.context.diagnostics:
        meant = re.search(r"did you mean (.+)\?", diagnostic.message)
        if meant is None:
            continue
        row = diagnostic.range.start.line
        for name in meant[1].split(" or "):
            place = _find_misspelt(name, row, lines[row])
            if place is not None:
                edit = types.WorkspaceEdit({uri: [types.TextEdit(place, name)]})
                actions.append(types.CodeAction(f"write {name}", kind, [diagnostic], edit=edit))
    return actions


def _find_misspelt(name: str, row: int, line: str) -> types.Range | None:
    """Where a line has the word that is spelt nearly as `name` is."""
    words = {word[0]: word for word in re.finditer(r"\w+", line)}
    nearly = difflib.get_close_matches(name, words.keys() - {name}, 1)
    if not nearly:
        return None
    first, last = words[nearly[0]].span()
    return types.Range(types.Position(row, first), types.Position(row, last))


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
        if found := _find_in_parents(steps, node.name):
            at = found[0]
            lenses.append(_lens(node.lineno - 1, "parent", at.uri, at.range.start.line))
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
