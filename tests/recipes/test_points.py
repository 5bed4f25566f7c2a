"""Where models once left their fast path: they do not any more.  Further such tests are in unit/parts."""

from __future__ import annotations

import inspect
import math
from importlib import import_module
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.bench.cases import load_cases
from generated.dbrx import modeling_dbrx_grouped
from generated.switch_transformers import modeling_switch_transformers_grouped
from patchgen.cli.commands.memory import memory
from patchgen.parts.loss.linear import linear_losses
from patchgen.runtime.tiny import tiny_config
from patchgen.runtime.varlen import Form, Texts, by_rows
from patchgen.training import precision
from patchgen.training.rate.flops import count_forward_flops
from patchgen.verifying.observe.evidence import Trace
from patchgen.verifying.observe.recorder import listening
from tests.gallery import GALLERY


def test_the_benchmark_trains_as_people_do():
    for case in load_cases():
        if case.id in ("B2", "L2"):
            assert {entry.precision for entry in case.entries} == {"amp-bf16"}
            assert case.shortest or case.packed


def test_a_packed_variant_is_measured_where_it_takes_padding_out():
    entries = [entry for case in load_cases() for entry in case.entries]
    packed = [entry for entry in entries if entry.variant == "llama_packed"]
    assert packed and {entry.attention for entry in packed} == {"varlen"}


def test_commands_share_the_names_of_precisions():
    (option,) = [each for each in memory.params if each.name == "precision"]
    assert tuple(option.type.choices) == precision.NAMES
    used = {entry.precision for case in load_cases() for entry in case.entries}
    assert used <= set(precision.NAMES)


def test_operations_of_a_model_that_no_machine_holds():
    """Each of its seven matrices has 64 TiB, and an address space has 128."""
    wide = 2**22
    config = transformers.LlamaConfig(
        hidden_size=wide,
        intermediate_size=wide,
        num_hidden_layers=1,
        num_attention_heads=32,
        num_key_value_heads=32,
        vocab_size=96,
    )
    cost = count_forward_flops(transformers.LlamaForCausalLM, config, 4096)
    assert cost is not None
    assert cost.step(tokens=1, labelled=1, pairs=1, causal=True) > 3 * 2 * 7 * wide**2


@pytest.mark.parametrize("form", [Form(True), Form(True, window=2), Form(False)], ids=str)
def test_groups_of_heads_are_repeated_beside_a_mask(form):
    query, key = torch.randn(9, 4, 8), torch.randn(9, 2, 8)
    with listening(trace := Trace()):
        by_rows(query, key, key, Texts(torch.tensor([0, 4, 9]).int(), 5), form)
    (call,) = trace.sdpa
    assert call.native_gqa == (call.mask in ("causal", "none")), call


class Made(TorchDispatchMode):
    """The places and sizes of the float32 tensors that operations make."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[tuple[int, int]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        made = function(*args, **kwargs or {})
        for each in made if isinstance(made, tuple | list) else (made,):
            if isinstance(each, torch.Tensor) and each.dtype == torch.float32:
                self.sizes.append((each.data_ptr(), each.numel()))
        return made


def test_the_loss_makes_one_wide_tensor_as_large_as_the_weight():
    """Of a weight in bfloat16: the sum of its gradient."""
    tokens, words, size, chunk = 16, 512, 64, 2
    states = torch.randn(tokens, size).bfloat16()
    weight = torch.randn(words, size).bfloat16()
    labels, token_weights = torch.randint(words, (tokens,)), torch.ones(tokens)
    with Made() as made:
        linear_losses._init_fn(states, weight, labels, token_weights, chunk, 0.0, True, False)
    large = [place for place, numbers in made.sizes if numbers >= words * size / 4]
    assert len(large) > 1 and len(set(large)) == 1


GROUPED = {
    "switch": (
        modeling_switch_transformers_grouped.SwitchTransformersForConditionalGeneration,
        tiny_config(transformers.SwitchTransformersConfig),
    ),
    "dbrx": (modeling_dbrx_grouped.DbrxForCausalLM, tiny_config(transformers.DbrxConfig)),
}


@pytest.mark.parametrize("kind", GROUPED)
def test_a_step_keeps_no_copy_of_the_experts(kind):
    model_class, config = GROUPED[kind]
    model, kept = model_class(config).train(), []
    stacks = [
        parameter
        for name, parameter in model.named_parameters()
        if "experts" in name and parameter.dim() == 3
    ]
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def keep(tensor):
        if tensor.untyped_storage().data_ptr() not in own:
            kept.append(tuple(tensor.shape))
        return tensor

    ids = torch.arange(10, 34).view(2, 12)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(input_ids=ids, labels=ids).loss.backward()
    shapes = {math.prod(stack.shape) for stack in stacks}
    assert stacks and kept and not shapes & {math.prod(shape) for shape in kept}


# A mixture is a model of its own, whose classes have other names.
UNDER_THE_PARENTS_NAMES = [each for each in GALLERY if "moe" not in each.parts]


@pytest.mark.parametrize("variant", UNDER_THE_PARENTS_NAMES, ids=lambda each: each.name)
def test_a_variant_supports_what_its_parent_does(variant):
    """By these flags transformers' tests choose what they try: packed rows, masks, backends."""
    own, parent = import_module(variant.module), import_module(variant.parent)
    models = [
        name
        for name, made in vars(own).items()
        if isinstance(made, type) and issubclass(made, transformers.PreTrainedModel)
    ]
    flags = {
        (name, flag): value
        for name in models
        for flag, value in inspect.getmembers(getattr(parent, name))
        if flag.lstrip("_").startswith("supports_") and value is True
    }
    assert flags
    assert {(name, flag): getattr(getattr(own, name), flag) for name, flag in flags} == flags
