"""A package that is missing is named, with the command that installs it: no traceback, and no "internal error"."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from patchgen.cli import main
from patchgen.project.origin import how_to_install, missing_package
from tests.toytree import environment, toy_project


@pytest.fixture
def tree(tmp_path, monkeypatch):
    tree = toy_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tree


@pytest.mark.parametrize(
    ("package", "extra", "argv"),
    [
        ("torch", "models", ["verify", "v1"]),
        ("torch", "models", ["export", "v1", "--out", "folder"]),
        ("torch", "models", ["memory", "llama"]),
        ("torch", "models", ["unpatch", "--", "python", "program.py"]),
        ("torch", "train", ["train", "llama", "--tiny"]),
        ("transformers", "models", ["verify", "v1"]),
        ("accelerate", "train", ["train", "llama", "--tiny"]),
        ("matplotlib", "charts", ["memory", "llama", "--figure", "step.svg"]),
        ("jinja2", "page", ["page", "--out", "pages"]),
        ("pygls", "lsp", ["lsp"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_a_command_says_what_installs_it(package, extra, argv, tree, monkeypatch, capsys):
    if package not in ("torch", "transformers"):
        pytest.importorskip("torch")
        pytest.importorskip("accelerate")
    monkeypatch.setitem(sys.modules, package, None)
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert package in said.lower() and f"[{extra}]" in said and "pip install" in said
    assert "internal error" not in said


LATE = """
import sys
from patchgen.cli import main
sys.modules["datasets"] = None
def fail(*_): import datasets
import patchgen.cli.session
patchgen.cli.session.open_session = fail
sys.exit(main(["check"]))
"""


def test_one_that_is_missed_late_is_named_too(tree):
    done = subprocess.run(
        [sys.executable, "-c", LATE], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 2
    assert done.stderr.startswith("patchgen: check needs datasets, which is not installed: pip")
    assert "[train]'" in done.stderr


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("accelerate", "[train]'"),
        ("safetensors", "[models]'"),
        ("liger_kernel", "[liger]'"),
        ("einops", "pip install einops"),
    ],
)
def test_the_extra_that_brings_a_package(package, command):
    assert how_to_install(package).endswith(command)


def test_transformers_says_a_sentence():
    """transformers that was installed with --no-deps."""
    says = PackageNotFoundError("The 'safetensors>=0.8.0' distribution was not found")
    assert missing_package(says) == "safetensors"
    assert missing_package(ModuleNotFoundError(name="torch.nn")) == "torch"


@pytest.mark.parametrize(
    "argv", [["new", "llama"], ["rebase", "v1"], ["adopt", "modeling_mine.py"]], ids=" ".join
)
def test_transformers_is_named_with_the_line_of_pip(argv, tree, monkeypatch, capsys):
    tree.write("modeling_mine.py", "class Mine:\n    pass\n")
    main([*argv, "--help"])
    there = [path for path in sys.path if (Path(path or ".") / "transformers").is_dir()]
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in there])
    assert main(argv) in (1, 2)
    assert "pip install --no-deps transformers" in capsys.readouterr().err


def test_a_modular_file_without_transformers(tree, monkeypatch, capsys):
    modular = "from transformers.models.llama import modeling_llama as llama\n\n\n"
    tree.write(
        "modular/llama/modular_llama_x.py", f"{modular}class LlamaMLP(llama.LlamaMLP): pass\n"
    )
    assert main(["check", "llama_x"]) == 1
    capsys.readouterr()
    there = [path for path in sys.path if (Path(path or ".") / "transformers").is_dir()]
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in there])
    assert main(["check", "llama_x"]) == 1
    said = capsys.readouterr().out
    assert "PG101" in said and "pip install --no-deps transformers" in said
