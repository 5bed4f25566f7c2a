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
    for (place,) in said["places"]:
        upstream = Path(uris.to_fs_path(place.uri))
        assert upstream.name == "modeling_llama.py"
        lines.append(upstream.read_text().split("\n")[place.range.start.line].strip())
    assert lines[0].startswith("class LlamaMLP(")
    assert lines[1].startswith("def forward(self, x")
    assert re.match(r"def __init__\(self, config: LlamaConfig, layer_idx", lines[2])
    titles = [lens.command.title for lens in said["lenses"]]
    assert titles == ["flat file modeling_llama_clamp.py", "parent", "parent"]
    assert said["shown"].uri.endswith("modeling_llama.py")


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
