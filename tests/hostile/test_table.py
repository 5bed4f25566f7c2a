"""Each line of SECURITY.md is what its command does: the command runs under an audit hook that allows no more."""

import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from patchgen.cli.commands import COMMANDS, OLD
from tests.hostile.audit import read_table, watched
from tests.toytree import REPOSITORY

TABLE = read_table()
PAGE = (REPOSITORY / "SECURITY.md").read_text(encoding="utf-8")
FILE = "modular/v1/modular_v1.py"
# Command lines in a converted project: that exit with 0, or with the code behind them.
RUNS = {
    "check": [["check"], ["check", "--no-cache", "--fix"]],
    "convert": [["convert", "--no-cache"], ["convert", "--out", "{named}"]],
    "diff": [["diff"]],
    "lint": [["lint"]],
    "list": [["list"]],
    "explain": [["explain", FILE]],
    "completion": [["completion", "bash"]],
    "errors": [["errors"], ["errors", "PG301"]],
    "init": [["init", "."], ["init", "{named}/inner"]],
    "page": [["page", "--out", "{named}"]],
    "rebase": [["rebase", FILE], ["rebase", "--write"]],
    "survive": [["survive"]],
    "adopt": [["adopt", "{named}/modeling_llama_fork.py", "--out", "{named}/made"]],
    "new": [
        ["new", "llama", "--with", "loss", "--no-proof"],
        ["new", "llama"],
        ["new", "{named}/llama-8b"],
    ],
}
# These import torch, which takes seconds.
SLOW = {
    "export": [["export", "llama_loss", "--out", "{named}/exported"]],
    "memory": [["memory", "llama", "--tiny"]],
    "verify": [
        ["verify", "llama_loss", "--mutants", "none", "--dtype", "float32", "--out", "{named}/report"],
        ["verify", "llama_loss", "--checkpoint", "{named}/tiny", "--data", "{named}/program.py", "--length", "24"],
    ],
    "train": [["train", "llama_loss", "--tiny", "--max_steps", "1", "--output_dir", "{named}/run"]],
    "rescue": [["rescue", "{named}/hub", "--out", "{named}/rescued", "--no-verify"]],
    "unpatch": [["unpatch", "--out", "{named}/patches", "--", "python", "{named}/program.py"]],
}  # fmt: skip
CASES = [pytest.param(argv, id=" ".join(argv)) for runs in RUNS.values() for argv in runs]
CASES += [
    pytest.param(argv, id=" ".join(argv), marks=pytest.mark.slow)
    for runs in SLOW.values()
    for argv in runs
]


PROGRAM = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama import modeling_llama

config = LlamaConfig(
    hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
    num_key_value_heads=2, vocab_size=64,
)
modeling_llama.LlamaMLP.forward = lambda self, x: self.down_proj(self.up_proj(x))
LlamaForCausalLM(config)(torch.arange(9)[None])
"""
HUB = """
from transformers import PreTrainedModel


class TinyModel(PreTrainedModel):
    pass
"""


def test_the_page_names_the_commands_that_run_code_of_the_user():
    named = re.search(r"These run code of yours.*?:\s(.*?)\.", PAGE, re.DOTALL)[1]
    run = {name for name, line in TABLE.items() if line["runs"] & {"models", "program"}}
    assert set(re.findall(r"`(\w+)`", named)) == run


def test_every_command_has_a_line_and_a_test():
    assert TABLE.keys() == COMMANDS.keys() | OLD.keys()
    # The server of editors has a test of its own.
    assert RUNS.keys() | SLOW.keys() | {"lsp"} == TABLE.keys()


def write_inputs(world, argv=()):
    """A fork, a program that patches, and a folder of the Hub."""
    release = Path(find_spec("transformers").origin).parent
    fork = (release / "models/llama/modeling_llama.py").read_text(encoding="utf-8")
    fork = fork.replace("from ...", "from transformers.").replace(
        "down_proj(self", "down_proj(2 * self"
    )
    hub = {"config.json": "{}", "modeling_tiny.py": HUB}
    files = {"modeling_llama_fork.py": fork, "program.py": PROGRAM}
    files |= {f"hub/{name}": text for name, text in hub.items()}
    files["llama-8b/config.json"] = '{"model_type": "llama"}'
    for folder in ("hub", "llama-8b"):
        (world.named / folder).mkdir()
    for name, text in files.items():
        (world.named / name).write_text(text, encoding="utf-8")
    if "--checkpoint" in argv:
        from tests.checkpoint import write_checkpoint  # needs torch

        write_checkpoint(world.named / "tiny")


@pytest.mark.parametrize("argv", CASES)
@pytest.mark.usefixtures("own_generated")
def test_a_command_does_what_its_line_says(argv, world, capfd):
    write_inputs(world, argv)
    if argv[0] in SLOW:  # these run models, and the toys of the project are none
        shutil.rmtree(world.project / "modular")
        assert watched(world, ["new", "--from-gallery", "llama_loss"], capfd).code == 0
    assert watched(world, ["convert", "-q"], capfd).code == 0
    run = watched(world, [word.format(named=world.named) for word in argv], capfd)
    assert not run.faults(TABLE[argv[0]]), run.text
    assert run.code in (0, 1), run.text


def test_the_server_of_editors(world, capsys):
    pytest.importorskip("pygls")
    from lsprotocol import types
    from pygls.workspace import Workspace

    from patchgen.cli.language_server import look, show_lenses

    path = world.project / FILE
    workspace, heard = Workspace(None), []
    item = types.TextDocumentItem(
        path.as_uri(), "python", 1, path.read_text().replace("return", "retrun")
    )
    workspace.put_text_document(item)
    server = SimpleNamespace(workspace=workspace, text_document_publish_diagnostics=heard.append)

    def serve():
        look(server, types.DidOpenTextDocumentParams(item))
        show_lenses(server, types.CodeLensParams(types.TextDocumentIdentifier(item.uri)))
        return 0

    run = watched(world, ["lsp"], capsys, serve)
    assert not run.faults(TABLE["lsp"])
    assert [diagnostic.code for diagnostic in heard[0].diagnostics] == ["PG006"]
