"""PG421 names what is NaN after the parent's checkpoint is loaded, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from tests.population.filled import Told, find_classes, judge, judge_model
from tests.population.models import Model, find_models

MODELS = {model.name: model for model in find_models()}
EIGHTH = [model for model in find_models()[::8] if model.head and model.pretrained]


def assert_right(model: Model, told: dict[str, Told]) -> None:
    for name, each in told.items():
        assert not each.why, f"{model.name} {name}: {each.why}"
        assert len(each.by_nan) > 20, f"{model.name} {name}"
        assert not each.missed and not each.wrong, f"{model.name} {name}"


@pytest.mark.parametrize("name", ["gpt2", pytest.param("llama", marks=pytest.mark.slow)])
def test_one_model(name: str, tmp_path: Path) -> None:
    assert_right(MODELS[name], judge_model(MODELS[name], tmp_path))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("model", EIGHTH, ids=lambda model: model.name)
def test_every_eighth_model(model: Model, tmp_path: Path) -> None:
    try:
        if not find_classes(model):
            pytest.skip("all of its modules are models")
    except Exception as error:  # tiny sizes do not fit every model
        pytest.skip(f"cannot be built: {error}")
    try:
        told = judge_model(model, tmp_path)
    except OSError as error:  # it loads files of its own
        pytest.skip(f"cannot be loaded: {error}")
    assert_right(model, told)


# Model, block, and arguments of a tiny configuration.
BLOCKS = [
    ("mixtral", "MixtralSparseMoeBlock", "num_local_experts=2, num_experts_per_tok=1"),
    ("qwen3_moe", "Qwen3MoeSparseMoeBlock", "num_experts=2, moe_intermediate_size=4"),
    ("vit", "ViTEmbeddings", "image_size=4, patch_size=2"),
    ("beit", "BeitEmbeddings", "image_size=4, patch_size=2, use_mask_token=True"),
    ("llama4", "Llama4TextExperts", "num_local_experts=2"),
    ("gpt_oss", "GptOssMLP", "num_local_experts=2"),
    ("gemma2", "Gemma2RMSNorm", ""),
    ("convnext", "ConvNextEmbeddings", "num_channels=3"),
]
BLOCK = """
from transformers.models.llama import modeling_llama as hf
from transformers.models.{model}.configuration_{model} import {config}
from transformers.models.{model}.modeling_{model} import {block}


class LlamaDecoderLayer(hf.LlamaDecoderLayer):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.taken = {block}({given})
"""


def read_configuration(model: str) -> str:
    path = MODELS[model].path.with_name(f"configuration_{model}.py")
    return path.read_text(encoding="utf-8")


def write_block(model: str, block: str, options: str) -> str:
    found = re.findall(r"^class (\w+Config)\(", read_configuration(model), re.MULTILINE)
    (config,) = [name for name in found if "Vision" not in name and name != "Llama4Config"][:1]
    given = f"{config}(hidden_size=4, intermediate_size=4, {options})"
    given = "4" if block == "Gemma2RMSNorm" else given
    return BLOCK.format(model=model, block=block, config=config, given=given)


@pytest.mark.parametrize(
    ("model", "block", "options"),
    [*BLOCKS[:1], *(pytest.param(*each, marks=pytest.mark.slow) for each in BLOCKS[1:])],
    ids=lambda value: value,
)
def test_a_block_of_another_model(model: str, block: str, options: str, tmp_path: Path) -> None:
    told = judge(MODELS["llama"], model, write_block(model, block, options), tmp_path)
    assert not told.why and not told.missed and not told.wrong


def test_experts_are_initialised_as_in_their_own_model(tmp_path: Path) -> None:
    path = tmp_path / "modular_llama_x.py"
    path.write_text(write_block(*BLOCKS[0]))
    (file,) = flatten(path, make_environment(tmp_path), Settings()).files
    assert not file.warnings
    assert "        elif isinstance(module, MixtralTopKRouter):\n" in file.text
    assert "import MixtralExperts, MixtralSparseMoeBlock, MixtralTopKRouter\n" in file.text


LONG = """
from transformers.models.llama import modeling_llama as hf
from torch import nn, ones


class LlamaMLP(hf.LlamaMLP):
    def __init__(self, config):
        super().__init__(config)
        self.gain = nn.Parameter(ones(8))
        table = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
        for a in table:
            for b in table:
                for c in table:
                    for d in table:
                        for e in table:
                            self.last = e
"""


def test_code_that_is_too_long_to_follow(tmp_path: Path) -> None:
    path = tmp_path / "modular_llama_x.py"
    path.write_text(LONG)
    (file,) = flatten(path, make_environment(tmp_path), Settings()).files
    (note,) = file.notes
    assert "too long to be followed" in note.what and not file.warnings
