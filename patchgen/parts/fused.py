# ruff: noqa: B018, F841  (edits are read, not run)
"""Linear layers of one input as one matrix product, and the tanh form of GELU as one operation.

    class LlamaMLP(FusedGateUp, llama.LlamaMLP): ...                              gate_proj, up_proj
    class LlamaAttention(FusedQKV, llama.LlamaAttention): ...                     q_proj, k_proj, v_proj
    class LlamaPreTrainedModel(FusedProjections, llama.LlamaPreTrainedModel): ...
    class GPT2MLP(FusedGelu, gpt2.GPT2MLP): ...

**Checkpoints** are the parent's: `from_pretrained` puts the matrices together and `save_pretrained` takes them apart,
for every class of the model, by transformers' `WeightConverter`.  The converters belong to the model that is loaded
and are registered under no name: names are for the whole process, and transformers' own Llama would be asked for
fused weights.  A checkpoint that was saved fused (`save_original_format=False`) loads as it is.

Other than in the parent are therefore `state_dict()`, the names of parameters and modules (LoRA's target is `qkv_proj`
and `gate_up_proj`, and one low-rank update serves all parts), and the order in which weights are drawn.  The rows of
the parts lie one above the other, `q_proj` first.

Refused, by a ValueError: quantised loading, which puts other modules in the place of the fused ones; loading in shards
(`distributed_config`: tensor parallelism, FSDP2 of transformers), which would cut across the parts.  Load it whole,
and split it then: the plan for tensor parallelism has rules for the fused layers (`split_fused`).  Weights tied to one
part alone have no place here.

**Rounding.**  A product of stacked matrices has the same sums, which a library may order otherwise; the gradient of
the input is one sum where it was a sum of two or three.  `gelu_new` and its like are computed in float32 by one
operation, where the parent rounds each of eight: nearer to the truth in bfloat16, equal up to rounding in float32.
Not `gelu_fast`, whose constant is another one.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.activations import ACT2FN
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import Concatenate, ConversionOps, PrefixChange, WeightConverter

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.plans import refuse_plan, refused_within, starred

# Formulas that are written out in Python, and are one operation of torch.
TANH_GELUS = frozenset({"gelu_new", "gelu_accurate", "gelu_python_tanh"})


class FusedLinear(nn.Linear):
    """Several linear layers of one input; `parts` gives how wide each is, by the name that it has in checkpoints."""

    def __init__(self, in_features: int, parts: dict[str, int], bias: bool = True) -> None:
        super().__init__(in_features, sum(parts.values()), bias=bias)
        self.parts = dict(parts)


def split_qkv(qkv: Tensor, groups: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, side by side on the last axis; `groups` query heads share a key head."""
    width = qkv.shape[-1] // (groups + 2)
    query, key, value = qkv.split((groups * width, width, width), dim=-1)
    return query, key, value


def gated(activation: nn.Module, gate_up: Tensor) -> Tensor:
    """The second half of the last axis, times the activation of the first."""
    gate, up = gate_up.chunk(2, dim=-1)
    return activation(gate) * up


def fused_activation(name: str) -> Any:
    """The activation of this name, by one operation where torch has it."""
    return ACT2FN["gelu_pytorch_tanh" if name in TANH_GELUS else name]


class Part(ConversionOps):
    """Takes rows apart, so many for each target."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        self.widths = widths

    @torch.no_grad()
    def convert(self, input_dict: dict[str, Any], target_patterns: list[str], **kwargs: Any) -> dict[str, Any]:
        (given,) = input_dict.values()
        whole = given[0] if isinstance(given, list) else given
        parts = whole.split(self.widths, dim=0)
        return {name: part.contiguous() for name, part in zip(target_patterns, parts, strict=True)}

    @property
    def reverse_op(self) -> ConversionOps:
        return Join(self.widths)


class Join(Concatenate):
    """Puts rows together; knows the way back, also where the parts are not equally wide."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__(dim=0)
        self.widths = widths

    @property
    def reverse_op(self) -> ConversionOps:
        return Part(self.widths)


def fused_conversions(model: PreTrainedModel) -> list[WeightConverter]:
    """From the parent's checkpoint to the fused layers of `model`, one converter for each of their parameters.

    By the names of the base model, so that they are found in checkpoints of the base model and of any head.
    """
    return [
        WeightConverter(
            [f"{owner.removeprefix(f'{model.base_model_prefix}.')}{part}.{kind}" for part in module.parts],
            f"{owner.removeprefix(f'{model.base_model_prefix}.')}{name}.{kind}",
            [Join(tuple(module.parts.values()))],
        )
        for owner, name, module in fused_layers(model)
        for kind, _ in module.named_parameters()
    ]


def fused_layers(model: nn.Module) -> list[tuple[str, str, FusedLinear]]:
    """Each with the path of its owner, which ends with a dot, and its own name."""
    found = [(path.rpartition("."), module) for path, module in model.named_modules()]
    return [(f"{owner}{dot}", name, module) for (owner, dot, name), module in found if isinstance(module, FusedLinear)]


def split_fused(model: Any) -> None:
    """Let the plan of `model` for tensor parallelism split fused layers where it split their parts.

    Gate and up are taken in the same slices by each process, as the parent's.  What comes out of other fused layers is
    gathered, as in transformers' Phi-3, so that what follows in their module runs whole on every process.
    """
    if why := refused_within(model, "tp"):
        refuse_plan(model, "tp", why)
        return
    plan = dict(model._tp_plan)
    for path, module in {starred(f"{owner}{name}"): module for owner, name, module in fused_layers(model)}.items():
        owner = path.rpartition(".")[0]
        styles = {plan.pop(f"{owner}.{part}", None) for part in module.parts} - {None}
        if not styles:  # it has none for them, or its own already
            continue
        if is_gate_and_up(module) and styles == {"colwise"}:
            plan[path] = "packed_colwise"
            continue
        beside = {each: style for each, style in plan.items() if each.startswith(f"{owner}.")}
        if unknown := sorted((styles - {"colwise", "colwise_gather_output"}) | (set(beside.values()) - set(WHOLE))):
            refuse_plan(model, "tp", f"{path} is fused, and nobody knows what becomes of {unknown[0]} beside it")
            return
        plan[path] = "colwise_gather_output"
        plan |= {each: WHOLE[style] for each, style in beside.items()}
    model._tp_plan = {path: style for path, style in plan.items() if style}


# What stands for a style where activations are whole on every process; "" for what has nothing to do there.
WHOLE = {
    "colwise": "colwise_gather_output",
    "colwise_gather_output": "colwise_gather_output",
    "rowwise": "rowwise_split_input",
    "rowwise_split_input": "rowwise_split_input",
    "replicated_with_grad_allreduce": "",
}


def is_gate_and_up(module: FusedLinear) -> bool:
    """Whether the two halves of its rows can be split alike; the biases of transformers' packed layers are not."""
    return module.bias is None and [*module.parts] == ["gate_proj", "up_proj"] and len({*module.parts.values()}) == 1


class FusedProjections:
    """Mixin of a `PreTrainedModel` with fused layers: it reads and writes the parent's checkpoints."""

    def post_init(self: Any) -> None:
        super().post_init()
        split_fused(self)
        # For a model that is saved without having been loaded: what transformers would look up, and the fused layers.
        known = get_model_conversion_mapping(self, add_legacy=False)
        self._weight_conversions = [each for each in known if not isinstance(each, PrefixChange)]
        self._weight_conversions += fused_conversions(self)

    @staticmethod
    def _load_pretrained_model(
        model: Any, state_dict: Any, checkpoint_files: Any, load_config: Any, expected_keys: Any = None
    ) -> Any:
        if load_config.hf_quantizer is not None:
            raise ValueError(f"{type(model).__name__} has fused projections and is not loaded quantised")
        if any(
            getattr(each, name, None) is not None
            for each, name in ((model, "_device_mesh"), (load_config, "device_mesh"))
        ):
            raise ValueError(f"{type(model).__name__} has fused projections: load it whole, shard it afterwards")
        mapping = [*(load_config.weight_mapping or []), *fused_conversions(model)]
        load_config = replace(load_config, weight_mapping=mapping)
        return PreTrainedModel._load_pretrained_model(model, state_dict, checkpoint_files, load_config, expected_keys)


class FusedQKV:
    @edit("__init__")
    def make_one_of_three(self: Any, inputs: Hole, queries: Hole, keys: Hole, bias: Hole) -> None:
        with old:
            self.q_proj = nn.Linear(inputs, queries, bias=bias)
            self.k_proj = nn.Linear(inputs, keys, bias=bias)
            self.v_proj = nn.Linear(inputs, keys, bias=bias)
        with new:
            self.qkv_proj = FusedLinear(inputs, {"q_proj": queries, "k_proj": keys, "v_proj": keys}, bias=bias)

    @edit("forward")
    def project_once(
        self: Any, hidden_states: Any, input_shape: Any, query_states: Any, key_states: Any, value_states: Any
    ) -> None:
        with old:
            input_shape = hidden_states.shape[:-1]
        with new:
            input_shape = hidden_states.shape[:-1]
            query_states, key_states, value_states = split_qkv(self.qkv_proj(hidden_states), self.num_key_value_groups)

    @edit("forward")
    def take_the_query(self: Any, hidden_states: Any, query_states: Any) -> None:
        with old:
            self.q_proj(hidden_states)
        with new:
            query_states

    @edit("forward")
    def take_the_key(self: Any, hidden_states: Any, key_states: Any) -> None:
        with old:
            self.k_proj(hidden_states)
        with new:
            key_states

    @edit("forward")
    def take_the_value(self: Any, hidden_states: Any, value_states: Any) -> None:
        with old:
            self.v_proj(hidden_states)
        with new:
            value_states


class FusedGateUp:
    @edit("__init__")
    def make_one_of_two(self: Any, inputs: Hole, outputs: Hole, bias: Hole) -> None:
        with old:
            self.gate_proj = nn.Linear(inputs, outputs, bias=bias)
            self.up_proj = nn.Linear(inputs, outputs, bias=bias)
        with new:
            self.gate_up_proj = FusedLinear(inputs, {"gate_proj": outputs, "up_proj": outputs}, bias=bias)

    @edit("forward")
    def project_once(self: Any, x: Hole) -> None:
        with old:
            self.act_fn(self.gate_proj(x)) * self.up_proj(x)
        with new:
            gated(self.act_fn, self.gate_up_proj(x))


class FusedGelu:
    @edit("__init__")
    def use_one_operation(self: Any, name: Hole) -> None:
        with old:
            ACT2FN[name]
        with new:
            fused_activation(name)
