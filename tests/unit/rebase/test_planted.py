"""Changes of upstream, planted in a toy model: the state of each declared change, and what it becomes.

`parent.py` is the old release.  A case of cases.toml says what the new release has instead (pairs of
texts; `old` are pairs for the old release), what is declared, the state of each change, and the
declaration afterwards.  A conflict names a word of its reason, and leaves the declaration as it is.
"""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

import pytest

from patchgen.author.align.file import read_file
from patchgen.author.rebase.releases import Prover, Tree
from patchgen.author.rebase.work import Rebase, Rebased
from patchgen.author.rebase.write import without_comments
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from patchgen.syntax.text import make_source

HERE = Path(__file__).parent
PARENT = (HERE / "parent.py").read_text(encoding="utf-8")
CASES = tomllib.loads((HERE / "cases.toml").read_text(encoding="utf-8"))["case"]
HEAD = '''"""A variant."""

import torch
from transformers.models.toy import modeling_toy as toy
from transformers.utils import rotate

from patchgen.edits import edit, new, old


'''


def release(folder: Path, text: str) -> Path:
    """A release of transformers that has the toy model alone."""
    model = folder / "transformers" / "models" / "toy"
    model.mkdir(parents=True)
    for package in (model, model.parent, model.parents[1]):
        (package / "__init__.py").touch()
    (model / "modeling_toy.py").write_text(text, encoding="utf-8")
    package = folder / "transformers"
    lazy = "if TYPE_CHECKING:\n    from .models.toy.modeling_toy import ToyMLP\n"
    (package / "__init__.py").write_text(
        f"from typing import TYPE_CHECKING\n\n{lazy}", encoding="utf-8"
    )
    (package / "activations.py").write_text("ACT2FN = {}\n", encoding="utf-8")
    utils = "def rotate(q, k, p):\n    return q, k\n\n\ndef from_hub(n):\n    return n\n\n\nkernel_from_hub = from_hub\n"
    (package / "utils.py").write_text(utils, encoding="utf-8")
    return folder


def rebased(declaration: str, parents: tuple[str, str], folder: Path) -> Rebased:
    """The declaration, written for the first of two parents, made to fit the second."""
    old, new = release(folder / "old", parents[0]), release(folder / "new", parents[1])
    trees = [Tree(make_environment(folder, root, ())) for root in (old, new)]
    modular = read_file(make_source(HEAD + declaration, "modular_toy_x.py"))
    prover = Prover("modular_toy_x.py", (), Settings())
    return Rebase(modular, prover, old, new, (trees[0], trees[1])).run()


def planted(case: dict[str, Any]) -> tuple[str, str]:
    """The old and the new parent of a case."""
    return changed(case.get("old", [])), changed(case["upstream"])


def changed(pairs: list[list[str]]) -> str:
    """The toy model with other texts."""
    text = PARENT
    for old, new in pairs:
        assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
        text = text.replace(old, new)
    ast.parse(text)
    return text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_planted(case: dict[str, Any], tmp_path: Path) -> None:
    declaration = case["declaration"].lstrip("\n")
    made = rebased(declaration, planted(case), tmp_path)
    states = {r.change.name: str(r.state) for r in made.results}
    reasons = " ".join(clash.what for r in made.results for clash in r.clashes)
    problems = [problem.code for problem in made.problems]
    assert (states, problems) == (case["states"], case.get("problems", [])), reasons
    assert case.get("because", "") in reasons
    text = without_comments(made.text)
    assert (text != made.text) == any(result.is_open for result in made.results)
    assert text.partition("\n\n\n")[2] == case.get("becomes", declaration).lstrip("\n")


def test_names_are_of_their_own() -> None:
    assert len({case["name"] for case in CASES}) == len(CASES)
