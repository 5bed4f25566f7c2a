"""Weights in another layout: checkpoints of the parent are read and written, and its own models load as ever."""

import copy
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from generated.dbrx import modeling_dbrx_grouped as dbrx_grouped
from generated.switch_transformers import (
    modeling_switch_transformers_grouped as switch_grouped,
)
from patchgen.runtime.inert import warn_where_adapters_miss_experts
from patchgen.runtime.tiny import tiny_config
from patchgen.verifying.inputs.arguments import batch
from patchgen.verifying.models.build import draw_weights

SWITCH = tiny_config(transformers.SwitchTransformersConfig)
DBRX = tiny_config(transformers.DbrxConfig)
MODELS = {
    "switch": (SWITCH, transformers.SwitchTransformersForConditionalGeneration, switch_grouped),
    "dbrx": (DBRX, transformers.DbrxForCausalLM, dbrx_grouped),
}
EACH = pytest.mark.parametrize(("config", "parent", "module"), MODELS.values(), ids=MODELS)


def saved(parent, config, folder):
    # A model writes its choice of implementations into its configuration, so each gets its own.
    model = parent(copy.deepcopy(config)).eval()
    draw_weights(model)
    model.save_pretrained(folder)
    return model


def loaded(kind, folder, **how):
    model, report = kind.from_pretrained(folder, output_loading_info=True, **how)
    assert not any(report.values()), report
    return model


def equal(one, two):
    ours, theirs = one.state_dict(), two.state_dict()
    return ours.keys() == theirs.keys() and all(
        torch.equal(ours[name], theirs[name]) for name in ours
    )


@EACH
def test_checkpoints_go_both_ways_and_the_parent_stays_as_it_is(tmp_path, config, parent, module):
    model = saved(parent, config, tmp_path / "parent")
    variant = loaded(getattr(module, parent.__name__), tmp_path / "parent")
    variant.save_pretrained(tmp_path / "back")
    variant.save_pretrained(tmp_path / "stacked", save_original_format=False)
    # Conversions are no entries of a register that transformers' own classes would read.
    assert equal(loaded(parent, tmp_path / "parent"), model)
    assert equal(loaded(parent, tmp_path / "back"), model)
    assert equal(loaded(type(variant), tmp_path / "stacked"), variant)


@EACH
def test_a_model_that_was_not_loaded_is_saved_as_the_parent(tmp_path, config, parent, module):
    variant = getattr(module, parent.__name__)(copy.deepcopy(config))
    variant.save_pretrained(tmp_path)
    parent = loaded(parent, tmp_path)
    assert not any("up_proj" in name for name in parent.state_dict())


def test_a_head_takes_the_checkpoint_of_the_base_model(tmp_path):
    base = saved(transformers.DbrxModel, DBRX, tmp_path)
    head = dbrx_grouped.DbrxForCausalLM.from_pretrained(tmp_path)
    stack = head.transformer.blocks[0].ffn.experts.gate_up_proj
    gates = base.blocks[0].ffn.experts.mlp.w1.view(len(stack), -1, stack.shape[2])
    assert torch.equal(stack[:, : gates.shape[1]], gates)


@pytest.mark.parametrize("how", ["grouped_mm", "batched_mm", "eager"])
@EACH
def test_every_implementation_computes_what_the_parent_does(
    tmp_path, config, parent, module, how, monkeypatch
):
    # transformers keeps its answer for every class that derives from the one that was asked.
    kept = "_can_set_experts_implementation_cached_value"
    monkeypatch.delattr(transformers.PreTrainedModel, kept, raising=False)
    model = saved(parent, config, tmp_path)
    variant = loaded(getattr(module, parent.__name__), tmp_path, experts_implementation=how)
    ids = torch.arange(10, 34).view(2, 12)
    results = []
    for each in (model, variant):
        loss = each(input_ids=ids, labels=ids).loss
        loss.backward()
        gradient = {
            name: p.grad
            for name, p in each.named_parameters()
            if "classifier" in name or "router" in name
        }
        results.append((loss, *gradient.values()))
    for one, two in zip(*results, strict=True):
        assert torch.allclose(one, two, rtol=1e-4, atol=1e-6)


# --- adapters on experts that are stacked parameters


def _mixture(kind):
    config, parent, module = MODELS[kind]
    torch.manual_seed(0)
    return getattr(module, parent.__name__)(copy.deepcopy(config)).train(), module


def _step(model):
    ids = batch().input_ids
    model(input_ids=ids, labels=ids).loss.backward()


@pytest.mark.parametrize("kind", MODELS)
def test_lora_trains_experts_by_target_parameters(kind):
    peft = pytest.importorskip("peft")
    model, _ = _mixture(kind)
    stacked = {name for name, each in model.named_parameters() if "experts" in name}
    targets = [name for name in stacked if name.endswith("_proj")]
    adapted = peft.get_peft_model(
        model, peft.LoraConfig(r=2, target_parameters=targets, init_lora_weights=False)
    )
    _step(adapted)
    trained = [name for name, each in adapted.named_parameters() if each.grad is not None]
    assert len(trained) == 2 * len(targets) and all("lora_" in name for name in trained)


def test_experts_without_an_adapter_are_told_once():
    peft = pytest.importorskip("peft")

    def told(**config):
        model, module = _mixture("switch")
        warn_where_adapters_miss_experts(model, Path(module.__file__).read_text(encoding="utf-8"))
        adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, **config)) if config else model
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _step(adapted)
            _step(adapted)
        return [str(each.message) for each in caught if "target_parameters" in str(each.message)]

    assert not told()
    (message,) = told(target_modules="all-linear")
    assert "target_parameters=['down_proj', 'up_proj']" in message
    assert not told(target_modules=["q"], target_parameters=["experts.up_proj"])
