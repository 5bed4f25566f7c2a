"""A project with three variants of one toy model, and releases of a toy transformers."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from patchgen.cli.commands import patchgen
from tests.toytree import Tree

PYPROJECT = """
[tool.patchgen]
sources = ["modular"]
outputs = { modular = "generated" }
"""
PARENT = '''"""A toy model."""

import torch
from torch import nn


class ToyNorm(nn.Module):
    def forward(self, x):
        return x / x.norm()


class ToyMLP(nn.Module):
    scale = 1

    def __init__(self, config):
        super().__init__()
        self.up = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x):
        x = self.up(x)
        return torch.relu(x)


__all__ = ["ToyMLP", "ToyNorm"]
'''
EDIT = '''"""An edit of the MLP."""

import torch
from transformers.models.toy import modeling_toy as toy

from patchgen.edits import edit, new, old


class ToyMLP(toy.ToyMLP):
    @edit("forward")
    def smooth(self, x):
        with old:
            torch.relu(x)
        with new:
            torch.tanh(x)
'''
OVERRIDE = '''"""Another scale, and a norm that cannot divide by zero."""

from transformers.models.toy import modeling_toy as toy


class ToyNorm(toy.ToyNorm):
    def forward(self, x):
        return x / (x.norm() + 1e-6)


class ToyMLP(toy.ToyMLP):
    scale = 2
'''


def make_release(folder: Path, version: str, text: str | None, *, wheel: bool = False) -> Path:
    """A release whose one model is `text`; without a text, it has no model `toy`."""
    files = {
        "transformers/__init__.py": f'__version__ = "{version}"\n',
        "transformers/models/__init__.py": "",
        "transformers/models/other/__init__.py": "",
    }
    if text is not None:
        files["transformers/models/toy/__init__.py"] = ""
        files["transformers/models/toy/modeling_toy.py"] = text
    if wheel:
        path = folder / f"transformers-{version}-py3-none-any.whl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return path
    for name, content in files.items():
        place = folder / version / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
    return folder / version


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """The variants `edited` and `overridden`, not converted, and an empty folder of releases."""
    tree = Tree(tmp_path / "project")
    tree.write("pyproject.toml", PYPROJECT)
    tree.write("modular/toy/modular_toy_edited.py", EDIT)
    tree.write("modular/toy/modular_toy_overridden.py", OVERRIDE)
    (tmp_path / "releases").mkdir()
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tree.top)
    return tree


@pytest.fixture
def cli() -> Run:
    """Runs a command; gives its exit code and what it printed on stdout."""

    def run(*argv: str) -> tuple[int, str]:
        result = CliRunner().invoke(patchgen, argv, standalone_mode=False)
        if result.exception is not None:
            raise result.exception
        return result.return_value, result.stdout

    return run


@pytest.fixture
def survey(tmp_path: Path, cli: Run) -> Callable[..., dict[str, Any]]:
    """The report of `patchgen rebase --releases` over the folder of releases."""

    def run(*argv: str) -> dict[str, Any]:
        known = ("--releases-dir", str(tmp_path / "releases"), "--releases", "5.1..5.9")
        code, out = cli("survive", *known, "--output-format", "json", *argv)
        report: dict[str, Any] = json.loads(out)
        assert code == int(not all(row["survives"] for row in report["variants"]))
        return report

    return run
