"""What `--output-format json` prints is what patchgen/cli/schema.json says, and the other forms have the same findings."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest

from patchgen.cli import main
from patchgen.cli.commands import COMMANDS, OLD
from tests.hostile.test_table import PROGRAM
from tests.rescue.test_refusals import MODEL
from tests.toytree import REPOSITORY, Tree, toy_project

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = json.loads((REPOSITORY / "patchgen/cli/schema.json").read_text(encoding="utf-8"))
FORM = ("--output-format", "json")
Cli = Callable[..., tuple[int, str]]


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Tree:
    for name in ("GITHUB_ACTIONS", "PATCHGEN_OUTPUT_FORMAT"):
        monkeypatch.delenv(name, raising=False)
    tree = toy_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tree


@pytest.fixture
def cli(capfd) -> Cli:
    def run(*argv: str) -> tuple[int, str]:
        capfd.readouterr()
        code = main([*argv])
        return code, capfd.readouterr().out

    return run


def conforming(text: str, command: str) -> dict[str, Any]:
    """The data in `text`, which has to be as the schema says."""
    data: dict[str, Any] = json.loads(text)
    assert data["command"] == command
    errors = jsonschema.Draft202012Validator(SCHEMA).iter_errors(data)
    assert [f"{error.json_path}: {error.message}" for error in errors] == []
    return data


def test_the_schema_is_one_and_knows_every_command():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    named = set(SCHEMA["properties"]["command"]["enum"])
    assert named <= COMMANDS.keys() | OLD.keys()
    with_form = [name for name in [*COMMANDS, *OLD] if "--output-format" in help_of(name)]
    assert set(with_form) - named <= {"diff", "survive"}  # which are `check` and `rebase`


def help_of(name: str) -> str:
    from patchgen.cli.commands import load_command

    return " ".join(option for param in load_command(name).params for option in param.opts)


@pytest.mark.parametrize("command", ["check", "list", "lint", "convert"])
def test_commands_on_outputs(command, tree, cli):
    for _ in range(2):
        conforming(cli(command, *FORM)[1], command)
        assert main(["convert", "-q"]) == 0
    tree.edit("modular/v1/modular_v1.py", "return", "retrun")
    code, out = cli(command, *FORM)
    if command != "list":  # which prints problems on stderr
        assert code == 1 and conforming(out, command)["problems"]


def test_overrides_whose_parent_changed(tree, cli):
    assert main(["convert", "-q"]) == 0
    tree.edit("lib/toy/modeling_toy.py", "return helper(1)", "return helper(3)")
    _, out = cli("check", *FORM)
    assert conforming(out, "check")["overrides"]


def test_commands_about_releases(tree, cli):
    assert main(["new", "llama", "--with", "norm", "--no-proof"]) == 0
    assert main(["convert", "llama_norm", "-q"]) == 0
    conforming(cli("rebase", "llama_norm", *FORM)[1], "rebase")
    conforming(cli("rebase", "llama_norm", "--releases", "all", *FORM)[1], "rebase")


def test_adopt(tree, cli):
    text = (REPOSITORY / "generated/mpnet/modeling_mpnet_checkpoint.py").read_text("utf-8")
    _, _, code = text.partition('"""\n')
    tree.write("modeling_mine.py", code)
    _, out = cli("adopt", "modeling_mine.py", "--parent", "mpnet", *FORM)
    assert conforming(out, "adopt")["declaration"]


def test_memory(tree, cli):
    pytest.importorskip("torch")
    conforming(cli("memory", "llama", "--tiny", "--card", "1GB", *FORM)[1], "memory")


@pytest.mark.slow
def test_verify(cli, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(REPOSITORY)
    words = ("albert_checkpoint", "--dtype", "float32", "--mutants", "3")
    data = conforming(cli("verify", *words, *FORM)[1], "verify")
    assert data["verdicts"]["albert_checkpoint"]["verdict"] == "proven"


@pytest.mark.slow
def test_unpatch_and_rescue(tree, cli):
    pytest.importorskip("torch")
    tree.write("program.py", PROGRAM)
    _, out = cli("unpatch", "--no-verify", *FORM, "--", "python", "program.py")
    assert conforming(out, "unpatch")["models"]
    tree.write("hub/modeling_x.py", MODEL)
    package = "releases/4.40.0/transformers"
    tree.write(f"{package}/__init__.py", '__version__ = "4.40.0"\n')
    tree.write(f"{package}/models/__init__.py", "")
    tree.write(f"{package}/modeling_utils.py", "class PreTrainedModel:\n    pass\n")
    old = ("--from", "4.40.0", "--package-root", "releases")
    _, out = cli("rescue", "hub", "--no-verify", *old, *FORM)
    conforming(out, "rescue")


def test_other_forms_have_the_same_findings(tree, cli):
    tree.edit("modular/v1/modular_v1.py", "return", 'retrun "<&>"')
    data = conforming(cli("check", *FORM)[1], "check")
    code, out = cli("check", "--output-format", "sarif")
    (run,) = json.loads(out)["runs"]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert code == 1
    assert [result["ruleId"] for result in run["results"]] == [p["code"] for p in data["problems"]]
    assert [place["artifactLocation"]["uri"] for place in places] == [
        problem["path"] for problem in data["problems"]
    ]
    code, out = cli("check", "--output-format", "junit")
    suite = ElementTree.fromstring(out)
    failed = [case for case in suite.iter("testcase") if case.find("failure") is not None]
    assert code == 1
    assert {case.get("name") for case in failed} == {p["path"] for p in data["problems"]}
    assert suite.get("failures") == str(len(failed))
    said = "\n".join(case.find("failure").text for case in failed)
    assert all(problem["message"] in said for problem in data["problems"])


def test_files_without_a_finding_pass(tree, cli):
    assert main(["convert", "-q"]) == 0
    _, out = cli("check", "--output-format", "junit")
    suite = ElementTree.fromstring(out)
    assert suite.get("failures") == "0" and suite.get("tests") == "2"
    assert json.loads(cli("check", "--output-format", "sarif")[1])["runs"][0]["results"] == []
