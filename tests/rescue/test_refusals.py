"""`patchgen rescue`: what it refuses, with its place and code, and nothing is written."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from patchgen.rescuing.environment import make_environment
from patchgen.rescuing.observe import load_checkpoint, read_weights
from patchgen.rescuing.rescue import read_repository
from patchgen.syntax.errors import PatchgenError
from tests.toytree import REPOSITORY, environment

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
save_file = pytest.importorskip("safetensors.torch").save_file

MODEL = """
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput


class XConfig(PretrainedConfig):
    model_type = "x"

    def __init__(self, vocab_size=96, hidden_size=32, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size, self.hidden_size = vocab_size, hidden_size


class XPreTrainedModel(PreTrainedModel):
    config_class = XConfig
    base_model_prefix = "model"


class XForCausalLM(XPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.embed

    def get_output_embeddings(self):
        return self.head

    def forward(self, input_ids, attention_mask=None, return_dict=None):
        return CausalLMOutput(logits=self.head(self.embed(input_ids)))
"""


@pytest.fixture
def work(tmp_path):
    """A folder with an old release of nothing and a repository."""
    package = tmp_path / "old/transformers"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "4.37.2"\n', encoding="utf-8")
    source = tmp_path / "source"
    source.mkdir()
    (source / "modeling_x.py").write_text(MODEL, encoding="utf-8")
    return tmp_path


def run(folder, *options, source="source", **variables):
    env = {**environment(), "PATCHGEN_CACHE_DIR": str(folder / "cache"), **variables}
    argv = [sys.executable, "-m", "patchgen", "rescue", source, *options, "--out", "out"]
    return subprocess.run(
        argv, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300
    )


def assert_refused(done, said, folder):
    assert done.returncode == 1 and said in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "out").exists() and not [*folder.glob(".rescue-*")]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"modeling_x.py": "def (:\n"}, "source/modeling_x.py:1:1: PG861 is no Python"),
        ({"modeling_x.py": "import torch\n"}, "source: PG861 has no Python file that imports"),
        ({"modeling_x.py": b"\xff"}, "source/modeling_x.py: PG861 cannot be read"),
        ({"config.json": "{"}, "source/config.json: PG861 is no JSON"),
        ({"config.json": "[]"}, "source/config.json: PG861 is no JSON object"),
        (
            {"modeling_x.py": "from transformers import PretrainedConfig\n"},
            "source: PG861 has no class of a model",
        ),
    ],
)
def test_a_repository(work, files, said):
    for name, text in files.items():
        data = text if isinstance(text, bytes) else text.encode()
        (work / "source" / name).write_bytes(data)
    assert_refused(run(work, "--package-root", "old", "--from", "4.37.2"), said, work)


def test_a_folder_without_python_and_a_file_that_is_not_there(work):
    (work / "source/modeling_x.py").unlink()
    said = "source: PG861 has no Python file that imports transformers"
    assert_refused(run(work, "--package-root", "old"), said, work)
    (work / "source/modeling_x.py").symlink_to("nowhere.py")
    said = "source/modeling_x.py: PG861 cannot be read"
    assert_refused(run(work, "--package-root", "old"), said, work)


def test_a_file_that_is_not_of_transformers(work):
    (work / "source/x.py").write_text("import torch\n", encoding="utf-8")
    done = run(work, "--package-root", "old", source="source/x.py")
    assert_refused(done, "source/x.py: PG861 has no Python file that imports", work)


def test_a_file_that_is_not_beside_is_named(tmp_path):
    path = tmp_path / "modeling_x.py"
    text = "from transformers import PreTrainedModel\nfrom .configuration_x import XConfig\n"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PatchgenError, match=r"modeling_x\.py:2:1.*imports configuration_x\.py"):
        read_repository(path)


def test_an_old_release_that_is_nowhere(work):
    assert_refused(run(work), "PG807 no release before 5 is at hand", work)
    done = run(work, "--package-root", "old", "--from", "4.99.0")
    assert_refused(done, "4.99.0: PG807 is no release of transformers that is here", work)


def test_an_old_release_that_cannot_be_installed(work):
    options = ("--package-root", "old", "--with-environments")
    done = run(work, *options, PIP_NO_INDEX="1")
    assert_refused(done, "transformers 4.37.2: PG862 cannot be installed: ERROR: No matching", work)
    assert [*(work / "cache/environments").iterdir()] == []


def test_an_output_folder_that_is_there(work):
    (work / "out").mkdir()
    (work / "out/mine.txt").write_text("mine", encoding="utf-8")
    done = run(work, "--package-root", "old")
    assert done.returncode == 1 and "out: PG804 is there already, and not empty" in done.stderr
    assert [path.name for path in (work / "out").iterdir()] == ["mine.txt"]


def test_a_checkpoint_without_weights(work):
    (work / "weights").mkdir()
    done = run(work, "--package-root", "old", "--checkpoint", "weights")
    assert_refused(done, "weights: PG863 has no weights: no *.safetensors or", work)


class Tied(torch.nn.Module):
    """A model whose head is its embedding."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(96, 16)
        self.head = torch.nn.Linear(16, 96, bias=False)
        self.head.weight = self.embed.weight


OTHER_NAMES = "has other names: missing 2, such as embed.weight; unexpected 1, such as wte.weight"


@pytest.mark.parametrize(
    ("name", "shape", "said"),
    [
        ("wte.weight", (96, 16), OTHER_NAMES),
        ("embed.weight", (96, 32), r"embed.weight is \(96, 32\), the model's \(96, 16\)"),
    ],
)
def test_weights_that_do_not_fit(name, shape, said):
    with pytest.raises(SystemExit, match=f"the checkpoint('s)? {said}"):
        load_checkpoint(Tied(), {name: torch.zeros(shape)})


def test_a_tied_weight_is_there_once():
    keys = load_checkpoint(Tied(), {"embed.weight": torch.zeros(96, 16)})
    assert keys == {"missing": [], "unexpected": []}


def test_weights_that_cannot_be_read(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(SystemExit, match="the checkpoint's model.safetensors cannot be read: "):
        read_weights(tmp_path)


def with_checkpoint(work, name):
    """A run with a checkpoint of one tensor, whose config.json has other sizes."""
    (work / "weights").mkdir()
    settings = {"hidden_size": 16, "tie_word_embeddings": True}
    (work / "weights/config.json").write_text(json.dumps(settings), encoding="utf-8")
    save_file({name: torch.randn(96, 16)}, work / "weights/model.safetensors")
    return run(work, "--package-root", "old", "--checkpoint", "weights")


def test_a_checkpoint_with_other_names(work):
    done = with_checkpoint(work, "wte.weight")
    assert_refused(done, f"weights: PG863 does not fit: the checkpoint {OTHER_NAMES}", work)


@pytest.mark.slow
def test_a_checkpoint_of_its_own_size(work):
    done = with_checkpoint(work, "embed.weight")
    assert "logits: runs\n" in done.stdout and "weights: differs" not in done.stdout
    assert (work / "out/REPORT.md").is_file()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_checkpoint_in_both_releases(tmp_path):
    """The example of docs/rescue.md, with weights of its own size."""
    page = (REPOSITORY / "docs/rescue.md").read_text(encoding="utf-8")
    for name, text in re.findall(r"```python file=(tiny/\S+)\n(.*?)```", page, re.DOTALL):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    weights = tmp_path / "weights"
    weights.mkdir()
    settings = {"hidden_size": 16, "num_hidden_layers": 3, "vocab_size": 96}
    (weights / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    shapes = {"embed.weight": (96, 16)}
    for layer in range(3):
        shapes |= {f"layers.{layer}.qkv.weight": (48, 16), f"layers.{layer}.qkv.bias": (48,)}
    generator = torch.Generator().manual_seed(0)
    tensors = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    save_file(tensors, weights / "model.safetensors")
    options = ["--from", "4.37.2", "--download", "--with-environments", "--checkpoint", "weights"]
    argv = [sys.executable, "-m", "patchgen", "rescue", "tiny", *options, "--out", "out"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "PG862" in done.stderr or "PG807" in done.stderr:
        pytest.skip("pip has no index")
    assert done.returncode == 0, done.stdout + done.stderr
    for what in ("logits", "gradients", "cache", "generate", "beam search"):
        assert f"{what}: equal" in done.stdout
    assert "weights: " not in done.stdout


def test_an_environment_is_made_once(tmp_path):
    (tmp_path / "4.37.2").mkdir()
    assert make_environment("4.37.2", tmp_path, None) == tmp_path / "4.37.2"
