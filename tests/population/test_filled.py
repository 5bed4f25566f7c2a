"""PG421 names what is NaN after the parent's checkpoint is loaded, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from tests.population.filled import Told, find_classes, judge_model
from tests.population.models import Model, find_models

MODELS = {model.name: model for model in find_models()}
EIGHTH = [model for model in find_models()[::8] if model.head and model.pretrained]


def assert_right(model: Model, told: dict[str, Told]) -> None:
    for name, each in told.items():
        assert not each.why, f"{model.name} {name}: {each.why}"
        assert len(each.by_nan) > 20, f"{model.name} {name}"
        assert not each.missed and not each.wrong, f"{model.name} {name}"


@pytest.mark.parametrize("name", ["gpt2", "llama"])
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
    assert_right(model, judge_model(model, tmp_path))


BLOCK = """
from transformers.models.llama import modeling_llama as hf
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock


class LlamaDecoderLayer(hf.LlamaDecoderLayer):
    def __init__(self, config, layer_idx):
        super().__init__(config, layer_idx)
        self.mlp = MixtralSparseMoeBlock(config)
"""


def test_a_block_of_another_model(tmp_path: Path) -> None:
    path = tmp_path / "modular_llama_x.py"
    path.write_text(BLOCK)
    (file,) = flatten(path, make_environment(tmp_path), Settings()).files
    said = [(warning.at.line, warning.what.partition(" ")[0]) for warning in file.warnings]
    assert said == [(9, "MixtralExperts.gate_up_proj,"), (9, "MixtralTopKRouter.weight")]
    assert (
        "init.normal_(module.gate_up_proj); init.normal_(module.down_proj)" in file.warnings[0].hint
    )
