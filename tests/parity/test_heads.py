"""The heads that transformers has for any model stand on the variant's base model, not on transformers' own."""

import importlib

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.runtime.tiny import tiny_config
from patchgen.verifying.inputs.arguments import batch
from tests.gallery import BY_NAME

HEADS = [
    ("qwen3_norm", "Qwen3ForSequenceClassification", "model"),
    ("qwen3_norm", "Qwen3ForQuestionAnswering", "transformer"),
    ("qwen3_norm", "Qwen3ForTokenClassification", "model"),
    ("qwen3_moe_checkpoint_loss", "Qwen3MoeForSequenceClassification", "model"),
    # It has an `__init__` of its own.
    ("llama_packed", "LlamaForQuestionAnswering", "transformer"),
]


def _made(module: str, head: str, model: str):
    torch.manual_seed(0)
    return getattr(importlib.import_module(module), head)(
        tiny_config(model, attn_implementation="sdpa")
    ).eval()


@pytest.mark.parametrize(("variant", "head", "base"), HEADS)
def test_a_head_has_the_base_model_of_its_file(variant, head, base):
    model = BY_NAME[variant].parent.split(".")[2]
    ours = _made(f"generated.{model}.modeling_{variant}", head, model)
    assert type(getattr(ours, base)).__module__ == type(ours).__module__


@pytest.mark.parametrize(("variant", "head", "base"), HEADS)
def test_it_starts_and_computes_as_the_parents(variant, head, base):
    model = BY_NAME[variant].parent.split(".")[2]
    ours = _made(f"generated.{model}.modeling_{variant}", head, model)
    theirs = _made(f"transformers.models.{model}.modeling_{model}", head, model)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    assert all(
        torch.equal(value, ours.state_dict()[name]) for name, value in theirs.state_dict().items()
    )
    given = {"input_ids": batch("right").input_ids, "attention_mask": batch("right").attention_mask}
    assert torch.equal(ours(**given)[0], theirs(**given)[0])


def test_a_variant_of_the_loss_leaves_the_other_heads_alone():
    with open(
        importlib.import_module("generated.llama.modeling_llama_loss").__file__, encoding="utf-8"
    ) as file:
        assert "super(Generic" not in file.read()
