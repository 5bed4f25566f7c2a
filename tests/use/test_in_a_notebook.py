"""From `pip install` of the wheel to a step of training, in ten lines of a notebook."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.toytree import REPOSITORY

pytest.importorskip("torch")
pytest.importorskip("hatchling")
pytest.importorskip("ipykernel")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytestmark = pytest.mark.timeout(300)

CELLS = (
    """\
%pip install -q --no-deps --no-index --target site {wheel}
import sys; sys.path.insert(0, "site")
import patchgen, torch
""",
    """\
model = patchgen.load("checkpoint", parts="fast").train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
""",
    """\
tokens = torch.arange(64).view(2, 32)
losses = [float((loss := model(tokens, labels=tokens).loss).detach())]
loss.backward(); optimizer.step()
losses.append(float(model(tokens, labels=tokens).loss))
""",
)
LINES = sum(len(cell.splitlines()) for cell in CELLS)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "-w", folder, REPOSITORY], check=True)
    (made,) = folder.glob("patchgen-*.whl")
    return made


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with a tiny checkpoint, where a kernel finds nothing of this repository."""
    from transformers import AutoModelForCausalLM, Qwen3Config

    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "head_dim": 8}
    counts = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    stock = AutoModelForCausalLM.from_config(Qwen3Config(**sizes, **counts))
    stock.save_pretrained(tmp_path / "checkpoint")
    monkeypatch.setenv("PATCHGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path


def run(cells: tuple[str, ...], folder: Path) -> list[str]:
    """What the cells print; an error in one is raised."""
    kernel = {"name": "python3", "display_name": "Python", "language": "python"}
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells], metadata={"kernelspec": kernel}
    )
    client = nbclient.NotebookClient(
        notebook, timeout=240, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    return [outputs_of(cell) for cell in notebook.cells]


def outputs_of(cell: Any) -> str:
    """What a cell printed, and what its last line is as a page."""
    texts = []
    for output in cell.outputs:
        if output.output_type == "stream":
            texts.append(output.text)
        else:
            texts.append(output.data.get("text/markdown", ""))
    return "".join(texts)


def test_ten_lines_train_a_step_and_write_the_model_once(folder, wheel):
    assert LINES <= 10
    last = 'print(patchgen.__file__, *losses, type(model).__name__, sep="\\n")'
    cells = (CELLS[0].format(wheel=wheel), *CELLS[1:], last)
    said = run(cells, folder)
    place, before, after, name = said[-1].splitlines()
    assert Path(place) == folder / "site/patchgen/__init__.py"
    assert name == "Qwen3ForCausalLM" and float(after) < float(before)
    (line,) = [
        line for text in said for line in text.splitlines() if ".py" in line and "is /" in line
    ]
    written = Path(line.rpartition(" is ")[2])
    assert written.is_file() and written.is_relative_to(folder / "cache")
    seen = {path: path.stat().st_mtime_ns for path in written.parents[2].rglob("*.py")}
    again = "".join(
        run(("import sys; sys.path.insert(0, 'site')\nimport patchgen, torch", *CELLS[1:]), folder)
    )
    assert " is /" not in again
    assert seen == {path: path.stat().st_mtime_ns for path in written.parents[2].rglob("*.py")}


@pytest.mark.slow
def test_what_the_commands_say_is_shown(folder, wheel):
    cells = (
        CELLS[0].format(wheel=wheel),
        'open("pyproject.toml", "w").write(\'[tool.patchgen]\\nsources = ["modular"]\\noutputs = { modular = "generated" }\\n\')',
        'print(patchgen.new("albert", "checkpoint"), patchgen.convert(), patchgen.check(), sep="\\n")',
        'found = patchgen.verify("albert_checkpoint", dtypes=["float32"], mutants=0)\nfound',
    )
    *_, made, page = run(cells, folder)
    assert "modular/albert/modular_albert_checkpoint.py\n(" in made and made.endswith("()\n")
    assert "# Parity" in page and "albert_checkpoint" in page
