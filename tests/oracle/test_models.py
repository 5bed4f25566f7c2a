"""The oracle on torch modules and installed models: equal state, equal outputs and gradients."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from tests.oracle import judge, packages
from tests.oracle.case import Draw

pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.mark.parametrize("name", packages.MODELS)
def test_flat_is_inherited(name: str, tmp_path: Path) -> None:
    case = packages.MODELS[name](Draw(len(name)), 0, name)
    judge.write(tmp_path / "source", case.files)
    environment = make_environment(tmp_path / "source", search=[str(judge.LIBRARY), *sys.path])
    result = flatten(tmp_path / "source" / case.modular, environment, Settings())
    assert not result.problems, "\n".join(map(str, result.problems))
    texts = {file.name: file.text for file in result.files}
    difference = judge.compare(case, texts, tmp_path / "inherited")
    assert difference is None, f"{str(difference)[:3000]}\n{case.listing()}"
