"""An editor's client talks to `patchgen lsp` about a modular file of the gallery."""

import asyncio
import gc
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("pygls")
from lsprotocol import types
from pygls import uris
from pygls.lsp.client import LanguageClient
from pygls.workspace import Workspace

from patchgen.cli import language_server, main
from tests.toytree import REPOSITORY, environment

MODULAR = """from transformers.models.llama import modeling_llama as llama

from patchgen.edits import Hole, edit, new, old


class LlamaMLP(llama.LlamaMLP):
    @edit("forward")
    def clamp_the_gate(self, gate: Hole):
        with old:
            self.act_fn(gate)
        with new:
            self.act_fn(gate.clamp(max=7.0))


class LlamaAttention(llama.LlamaAttention):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.scaling = 1.0
"""


async def talk(path: Path) -> dict[str, object]:
    """What the editor gets for a file with a mistake, then without it."""
    client, heard = LanguageClient("editor", "1"), asyncio.Queue()

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def hear(params):
        heard.put_nowait(params.diagnostics)

    @client.feature(types.WINDOW_SHOW_DOCUMENT)
    def show(params):
        heard.put_nowait(params)
        return types.ShowDocumentResult(True)

    await client.start_io(sys.executable, "-m", "patchgen", "lsp")
    await client.initialize_async(
        types.InitializeParams(
            types.ClientCapabilities(), root_uri=uris.from_fs_path(str(path.parent))
        )
    )
    client.initialized(types.InitializedParams())
    uri, text = uris.from_fs_path(str(path)), MODULAR.replace("act_fn(gate)", "act_fn(gate, 3)")
    client.text_document_did_open(
        types.DidOpenTextDocumentParams(types.TextDocumentItem(uri, "python", 1, text))
    )
    wrong = await asyncio.wait_for(heard.get(), 60)
    whole = types.TextDocumentContentChangeWholeDocument(MODULAR)
    client.text_document_did_change(
        types.DidChangeTextDocumentParams(types.VersionedTextDocumentIdentifier(2, uri), [whole])
    )
    right = await asyncio.wait_for(heard.get(), 60)
    document = types.TextDocumentIdentifier(uri)
    places = [
        await client.text_document_definition_async(
            types.DefinitionParams(document, types.Position(line, 4))
        )
        for line in (5, 9, 16)
    ]
    lenses = await client.text_document_code_lens_async(types.CodeLensParams(document))
    lens = next(lens for lens in lenses if lens.command.title == "parent")
    await client.workspace_execute_command_async(
        types.ExecuteCommandParams(lens.command.command, lens.command.arguments)
    )
    shown = await asyncio.wait_for(heard.get(), 60)
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    return {"wrong": wrong, "right": right, "places": places, "lenses": lenses, "shown": shown}


def test_what_an_editor_shows(tmp_path: Path) -> None:
    folder = tmp_path / "modular/llama"
    folder.mkdir(parents=True)
    path = folder / "modular_llama_clamp.py"
    path.write_text(MODULAR)
    table = '[tool.patchgen]\nsources = ["modular"]\noutputs = { modular = "generated" }\n'
    (tmp_path / "pyproject.toml").write_text(table)
    output = tmp_path / "generated/llama/modeling_llama_clamp.py"
    output.parent.mkdir(parents=True)
    shutil.copy(REPOSITORY / "generated/llama/modeling_llama_loss.py", output)
    said = asyncio.run(talk(path))

    ((diagnostic,), right) = said["wrong"], said["right"]
    assert (diagnostic.code, diagnostic.source, diagnostic.range.start.line) == (
        "PG301",
        "patchgen",
        8,
    )
    assert not right
    lines = []
    for place in said["places"]:
        upstream = Path(uris.to_fs_path(place.uri))
        assert upstream.name == "modeling_llama.py"
        lines.append(upstream.read_text().split("\n")[place.range.start.line].strip())
    assert lines[0].startswith("class LlamaMLP(")
    assert lines[1].startswith("def forward(self, x")
    assert re.match(r"def __init__\(self, config: LlamaConfig, layer_idx", lines[2])
    titles = [lens.command.title for lens in said["lenses"]]
    assert titles == ["flat file modeling_llama_clamp.py", "parent", "parent"]
    assert said["shown"].uri.endswith("modeling_llama.py")


TYPED = [
    f"{MODULAR}\n    def rep",
    f"{MODULAR}\n\nclass LlamaRMSNorm(llama.LlamaRMSNorm):\n    def",
]
MISSPELT = MODULAR.replace("llama.LlamaMLP)", "llama.LlamaMPL)")


async def ask(path: Path, output: Path) -> dict[str, object]:
    """What the editor gets for a file, one that is being typed, one with a wrong name, and an output."""
    client, heard = LanguageClient("editor", "1"), asyncio.Queue()

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def hear(params):
        heard.put_nowait(params.diagnostics)

    await client.start_io(sys.executable, "-m", "patchgen", "lsp")
    root = uris.from_fs_path(str(path.parent))
    await client.initialize_async(types.InitializeParams(types.ClientCapabilities(), root_uri=root))
    client.initialized(types.InitializedParams())
    document = types.TextDocumentIdentifier(path.as_uri())

    def open_text(uri, text):
        item = types.TextDocumentItem(uri, "python", 1, text)
        client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def change_to(version, text):
        whole = types.TextDocumentContentChangeWholeDocument(text)
        identifier = types.VersionedTextDocumentIdentifier(version, document.uri)
        client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [whole]))

    open_text(document.uri, MODULAR)
    await asyncio.wait_for(heard.get(), 60)
    said = {"hovers": []}
    for line in (5, 9, 0):
        position = types.Position(line, 4)
        hover = await client.text_document_hover_async(types.HoverParams(document, position))
        said["hovers"].append(hover.contents.value if hover else None)
    said["symbols"] = await client.text_document_document_symbol_async(
        types.DocumentSymbolParams(document)
    )
    open_text(output.as_uri(), output.read_text())
    lines = output.read_text().split("\n")
    said["origins"] = []
    for text in (".clamp(max=7.0)", "class LlamaRotaryEmbedding(", "# Generated by"):
        number = next(number for number, line in enumerate(lines) if text in line)
        position = types.Position(number, 0)
        place = types.DefinitionParams(types.TextDocumentIdentifier(output.as_uri()), position)
        said["origins"].append(await client.text_document_definition_async(place))
    said["completions"] = []
    for version, text in enumerate(TYPED, start=2):
        change_to(version, text)
        *lines, last = text.split("\n")
        begun = types.CompletionParams(document, types.Position(len(lines), len(last)))
        said["completions"].append(await client.text_document_completion_async(begun))
    change_to(4, MISSPELT)
    diagnostics = []
    while not any("did you mean" in each.message for each in diagnostics):
        diagnostics = await asyncio.wait_for(heard.get(), 60)
    said["fixes"] = await client.text_document_code_action_async(
        types.CodeActionParams(document, diagnostics[0].range, types.CodeActionContext(diagnostics))
    )
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    return said


def test_what_an_editor_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "modular/llama"
    folder.mkdir(parents=True)
    path = folder / "modular_llama_clamp.py"
    path.write_text(MODULAR)
    table = '[tool.patchgen]\nsources = ["modular"]\noutputs = { modular = "generated" }\n'
    (tmp_path / "pyproject.toml").write_text(table)
    monkeypatch.chdir(tmp_path)
    assert main(["convert", "-q"]) == 0
    said = asyncio.run(ask(path, tmp_path / "generated/llama/modeling_llama_clamp.py"))

    whole, method, nothing = said["hovers"]
    assert whole.startswith("```python\nclass LlamaMLP(") and "def forward" in whole
    assert method.startswith("```python\ndef forward(self, x") and "class" not in method
    assert nothing is None
    symbols = [(each.name, each.detail, len(each.children)) for each in said["symbols"]]
    assert symbols == [
        ("LlamaMLP", "llama.LlamaMLP", 1),
        ("LlamaAttention", "llama.LlamaAttention", 1),
    ]
    (edit,) = said["symbols"][0].children
    assert (edit.name, edit.detail, edit.range.start.line) == ("clamp_the_gate", "edits forward", 6)
    ours, theirs, banner = said["origins"]
    assert uris.to_fs_path(ours.uri) == str(path)
    assert "gate.clamp(max=7.0)" in MODULAR.split("\n")[ours.range.start.line]
    upstream = Path(uris.to_fs_path(theirs.uri))
    line = upstream.read_text().split("\n")[theirs.range.start.line]
    assert line.startswith("class LlamaRotaryEmbedding(")
    assert banner is None
    attention, norm = ({item.label: item for item in items} for items in said["completions"])
    assert "forward" in attention and "__init__" not in attention
    offered = norm["forward"].text_edit
    assert offered.new_text == "def forward(self, hidden_states):"
    assert (offered.range.start.character, offered.range.end.character) == (4, 7)
    fix, *_ = said["fixes"]
    assert fix.title == "write LlamaMLP"
    ((changed,),) = fix.edit.changes.values()
    assert changed.new_text == "LlamaMLP"
    line = MISSPELT.split("\n")[changed.range.start.line]
    assert line[changed.range.start.character : changed.range.end.character] == "LlamaMPL"


def test_an_editor_that_closes_ends_it_without_a_word(tmp_path: Path) -> None:
    messages = [
        {"id": 1, "method": "initialize", "params": {"capabilities": {}, "processId": None}},
        {"method": "initialized", "params": {}},
        {"id": 2, "method": "shutdown"},
        {"method": "exit"},
    ]
    sent = b""
    for message in messages:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        sent += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    done = subprocess.run(
        [sys.executable, "-m", "patchgen", "lsp"],
        input=sent,
        capture_output=True,
        cwd=tmp_path,
        env=environment(),
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Content-Length" in done.stdout


def test_a_server_keeps_its_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was typed before is forgotten: an edit leaves 4 MB of syntax trees."""
    folder = tmp_path / "modular/llama"
    folder.mkdir(parents=True)
    path = folder / "modular_llama_x.py"
    path.write_text(MODULAR, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    workspace = Workspace(None)
    heard: list[types.PublishDiagnosticsParams] = []
    ls = SimpleNamespace(workspace=workspace, text_document_publish_diagnostics=heard.append)
    kept = []
    for edit in range(1, 3 * language_server._REMEMBERED + 2):
        text = f"{MODULAR}\n# {edit}\n"
        workspace.put_text_document(types.TextDocumentItem(path.as_uri(), "python", edit, text))
        document = types.TextDocumentIdentifier(path.as_uri())
        language_server.look(ls, types.DidSaveTextDocumentParams(document))
        if edit > language_server._REMEMBERED and edit % language_server._REMEMBERED == 1:
            gc.collect()
            kept.append(len(gc.get_objects()))
    assert len(heard) == 3 * language_server._REMEMBERED + 1
    assert kept[-1] - kept[0] < 1000, kept


def test_a_server_collects_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other command does: it ends before that would pay."""
    collects: list[bool] = []
    start = "patchgen.cli.language_server.server.start_io"
    monkeypatch.setattr(start, lambda: collects.append(gc.isenabled()))
    assert main(["lsp"]) == 0
    assert collects == [True]
