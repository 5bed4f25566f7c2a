"""Activation checkpointing: the same step from fewer kept bytes, by transformers' own means and by `keep_products`."""

import importlib
import types
import warnings
from functools import partial

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, SelectiveCheckpointContext, checkpoint
from transformers import LlamaForCausalLM, MixtralForCausalLM, XLNetConfig
from transformers.modeling_layers import GradientCheckpointingLayer

from patchgen.runtime.checkpointing import (
    ChangedInPlace,
    SaveOrRecompute,
    is_kept,
    is_on,
    keep_products,
    switch_off,
    switch_on,
)
from patchgen.runtime.tiny import tiny_config
from patchgen.verifying.differences import differences, worst
from patchgen.verifying.inputs.arguments import batch
from patchgen.verifying.models.build import draw_weights

# Stray seeds, threads and warnings of transformers are not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore")

SELECTIVE = {"use_reentrant": False, "context_fn": keep_products}
REENTRANT = {"use_reentrant": True}
FORWARD = SelectiveCheckpointContext(is_recompute=False)
GALLERY = {
    "albert": ("AlbertForMaskedLM", {}),
    "mpnet": ("MPNetForMaskedLM", {}),
    "openai": ("OpenAIGPTLMHeadModel", {}),
    "xlnet": ("XLNetLMHeadModel", {}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", {"output_router_logits": True, "attention_dropout": 0.1}),
}
gallery = pytest.mark.parametrize("name", GALLERY)


def drawn(model_class, config):
    model = model_class(config)
    draw_weights(model)
    return model.train()


def pair(name, **changes):
    """The parent and the variant, tiny, of equal weights and with dropout."""
    class_name, given = GALLERY[name]
    if name == "xlnet":
        config = XLNetConfig(
            vocab_size=97, d_model=32, n_layer=3, n_head=4, d_inner=44, dropout=0.1, pad_token_id=0
        )
    else:
        config = tiny_config(
            {"openai": "openai-gpt"}.get(name, name), dropout=0.1, **given, **changes
        )
    parent = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    ending = "checkpoint_loss" if name == "qwen3_moe" else "checkpoint"
    variant = importlib.import_module(f"generated.{name}.modeling_{name}_{ending}")
    return drawn(getattr(parent, class_name), config), drawn(getattr(variant, class_name), config)


def step(model, **more):
    """Loss and every gradient of one step with dropout, and the bytes that autograd kept for it."""
    storages, own = {}, {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def note(tensor):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage  # alive, so that no address is used twice
        return tensor

    torch.manual_seed(11)
    model.zero_grad()
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = model(**batch("right", length=24).inputs(), use_cache=False, **more).loss
    kept = sum(storage.nbytes() for place, storage in storages.items() if place not in own)
    loss.backward()
    seen = {
        f"gradient of {name}": p.grad for name, p in model.named_parameters() if p.grad is not None
    }
    return {name: tensor.detach().clone() for name, tensor in {**seen, "loss": loss}.items()}, kept


def is_same(name, one, other):
    # The mixture's variant also adds up its loss in another order.
    return worst(differences(one, other)) <= (1e-5 if name == "qwen3_moe" else 0)


@gallery
def test_the_same_step_from_fewer_kept_bytes(name):
    parent, variant = pair(name)
    reference, everything = step(parent)[0], step(variant)[1]
    variant.activation_checkpointing_enable()
    seen, kept = step(variant)
    assert is_same(name, reference, seen)
    assert kept < everything
    variant.activation_checkpointing_enable(SELECTIVE)
    assert is_same(name, reference, step(variant)[0])
    variant.activation_checkpointing_disable()
    assert step(variant)[1] == everything


@pytest.mark.parametrize("name", ["mpnet", "openai", "xlnet", "qwen3_moe"])
def test_every_nth_layer_keeps_what_lies_between(name):
    """The same step, and bytes between those of all layers and of none that runs again."""
    size = {"xlnet": "n_layer", "openai": "n_layer"}.get(name, "num_hidden_layers")
    parent, variant = pair(name, **({} if name == "xlnet" else {size: 3}))
    reference, everything = step(parent)[0], step(variant)[1]
    kept = {}
    for every in (1, 2, 3):
        variant.activation_checkpointing_enable(every_n_layers=every)
        seen, kept[every] = step(variant)
        assert is_same(name, reference, seen)
        variant.activation_checkpointing_disable()
    assert kept[1] < kept[2] < kept[3] < everything


@gallery
def test_a_reentrant_recompute_gives_the_same(name):
    parent, variant = pair(name)
    variant.activation_checkpointing_enable(REENTRANT)
    # What it records of its routers has no gradient in a reentrant forward pass.
    if name == "qwen3_moe":
        parent.activation_checkpointing_enable(REENTRANT)
    assert is_same(name, step(parent)[0], step(variant)[0])


@gallery
def test_a_layer_whose_forward_is_wrapped(name):
    """As accelerate's hooks wrap it: on the instance, by a function that is not bound."""
    parent, variant = pair(name)
    calls = []

    def wrapped(right):
        return lambda *args, **kwargs: calls.append(1) or right(*args, **kwargs)

    for module in variant.modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.forward = wrapped(module.forward)
    variant.activation_checkpointing_enable()
    assert is_same(name, step(parent)[0], step(variant)[0])
    assert calls


def test_both_names_switch_it_on():
    _, model = pair("mpnet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.activation_checkpointing_enable()
        model.activation_checkpointing_disable()
    model.gradient_checkpointing_enable()
    assert is_on(model)
    switch_off(model)
    assert not is_on(model)


def test_older_releases_have_the_older_name():
    asked = []
    model = types.SimpleNamespace(
        gradient_checkpointing_enable=lambda *args, **more: asked.append((args, more)),
        gradient_checkpointing_disable=lambda: asked.append("off"),
    )
    switch_on(model, SELECTIVE, every_n_layers=2)
    switch_off(model)
    assert asked == [((SELECTIVE,), {"every_n_layers": 2}), "off"]


# --- keep_products, in a model of transformers


def test_products_are_kept_in_any_model():
    config = tiny_config("llama", attention_dropout=0.1)
    model = drawn(LlamaForCausalLM, config)
    runs = []
    for layer in model.model.layers:
        layer.mlp.register_forward_pre_hook(lambda *_: runs.append("mlp"))
    reference, _ = step(model)
    once = len(runs)
    switch_on(model, SELECTIVE, every_n_layers=2)
    assert is_same("llama", reference, step(model)[0])
    assert len(runs) == 2 * once + (once + 1) // 2


@pytest.mark.slow
def test_compiled():
    config = tiny_config("llama")
    reference, _ = step(drawn(LlamaForCausalLM, config))
    model = drawn(LlamaForCausalLM, config)
    switch_on(model, SELECTIVE)
    torch._dynamo.reset()
    model.forward = torch.compile(model.forward, backend="aot_eager", fullgraph=True)
    assert is_same("llama", reference, step(model)[0])


def test_what_is_kept():
    aten = torch.ops.aten

    def kept(operation, *args, **kwargs):
        policy = SaveOrRecompute()(FORWARD, operation, *args, **kwargs)
        saved = policy is CheckpointPolicy.MUST_SAVE
        assert saved == is_kept(operation, args, kwargs)
        return saved

    ones = torch.ones
    assert kept(aten.mm.default, ones(3, 4), ones(4, 5))
    assert kept(aten.addmm.default, ones(5), ones(3, 4), ones(4, 5))
    # Scores of 9 tokens over heads of width 2 are larger than what they are made of; what comes of them is not.
    assert not kept(aten.bmm.default, ones(2, 9, 2), ones(2, 2, 9))
    assert kept(aten.bmm.default, ones(2, 9, 9), ones(2, 9, 2))
    attention = aten._scaled_dot_product_flash_attention_for_cpu.default
    states = [ones(1, 2, 3, 4)] * 3
    assert kept(attention, *states) and not kept(attention, *states, 0.1)
    assert not kept(attention, *states, dropout_p=0.1)
    assert not any(
        kept(each, ones(3))
        for each in (aten.gelu.default, aten.native_dropout.default, aten.silu.default)
    )


class AddsInPlace(GradientCheckpointingLayer):
    """To the product of a linear layer, which is no view for torch."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6, bias=False)

    def forward(self, x):
        y = self.linear(x)
        y += x.sin()
        return y * y.cos()


def test_a_product_that_changes_in_place_is_refused():
    layer = AddsInPlace().train()
    layer.gradient_checkpointing = True
    layer._gradient_checkpointing_func = partial(checkpoint, **SELECTIVE)
    with pytest.raises(ChangedInPlace, match="add_.*changes in place a product"):
        layer(torch.randn(2, 3, 6, requires_grad=True))


# --- routers


class Indecisive(nn.Module):
    """In place of a router: each call after the first sees other states, as a recompute in another kernel might."""

    def __init__(self, router):
        super().__init__()
        self.router, self.calls = router, 0

    def forward(self, hidden_states):
        self.calls += 1
        noise = torch.randn(
            hidden_states.shape, generator=torch.Generator().manual_seed(self.calls)
        )
        return self.router(hidden_states + (self.calls > 1) * 3 * noise.to(hidden_states))


def routed(model):
    """By layer, which experts each of its forwards used."""
    used = {}
    for index, layer in enumerate(model.model.layers):
        layer.mlp.gate = Indecisive(layer.mlp.gate)
        layer.mlp.experts.register_forward_pre_hook(
            lambda _, given, index=index: used.setdefault(index, []).append(given[1].clone())
        )
    step(model)
    return used


def test_the_recompute_takes_the_experts_that_were_chosen():
    # Loops over experts stop on other shapes; grouped GEMMs do not.
    parent, variant = pair("qwen3_moe", experts_implementation="grouped_mm")
    for model in (parent, variant):
        model.activation_checkpointing_enable()
    chosen = routed(variant)
    assert all(torch.equal(first, second) for first, second in chosen.values())
    assert not any(torch.equal(first, second) for first, second in routed(parent).values())


def test_products_that_are_kept_choose_once_too():
    model = drawn(MixtralForCausalLM, tiny_config("mixtral", experts_implementation="grouped_mm"))
    switch_on(model, SELECTIVE)
    assert all(torch.equal(first, second) for first, second in routed(model).values())
