"""Linear layers of one input as one matrix product, and the tanh form of GELU as one operation.

    class LlamaMLP(FusedGateUp, llama.LlamaMLP): ...           gate_proj, up_proj
    class LlamaAttention(FusedQKV, llama.LlamaAttention): ...  q_proj, k_proj, v_proj
    class LlamaPreTrainedModel(SplitProjections, llama.LlamaPreTrainedModel): ...
    class GPT2MLP(FusedGelu, gpt2.GPT2MLP): ...

**Checkpoints** are the parent's: `from_pretrained` concatenates the matrices and `save_pretrained`
splits them, for every class of the model, by transformers' `WeightConverter`.  The converters
belong to the model that is loaded and are registered under no name: names hold for the whole
process, and transformers' own Llama would be asked for fused weights.  A checkpoint that was saved
fused (`save_original_format=False`) loads as it is.

A `PreTrainedModel` takes one mixin:

    FusedProjections    the parent has no plan for tensor parallelism, or `post_init` sets a new one
    SplitProjections    it has one: rules for fused layers are made of it when a model is built
    WholeProjections    it has one that splits a module beside the layers in its own way: no plan

In a plan, the output of fused layers is gathered, as in Phi-3.  `patchgen new` writes the new plan
out where the file has one base model and one configuration; a plan that a user gives to the
configuration is not read there.

and before it `KnownConversions`, where transformers already converts checkpoints of the parent.
Some of these are fused in a way of their own (`Wqkv` of Nomic BERT): such a tensor is split by
transformers' operations and joined again, and saved as it was read.  A ValueError says if
transformers converts one part of a fused layer alone.

What differs from the parent: `state_dict()`, the names of parameters and modules (LoRA's target is
`qkv_proj` and `gate_up_proj`, and one low-rank update serves all parts), and the order in which
weights are drawn.  The rows of `q_proj` come first.  A part that no output depends on has a
gradient of zeros where the parent has none, so that weight decay reaches it.

A ValueError refuses quantized loading, whose weights are not in rows, and loading in shards
(`distributed_config`: tensor parallelism, FSDP2 of transformers), which would cut across the parts.
Load the model whole, and split it then.  Weights tied to one part alone are not supported.

**Rounding.**  A product of concatenated matrices has the same sums, which a library may order
otherwise; the gradient of the input is one sum where it was a sum of two or three.  `gelu_new` and
its like are computed in float32 by one operation, where the parent rounds each of eight: closer to
the exact value in bfloat16, equal up to rounding in float32.  `gelu_fast`, whose constant is
another one, is left as it is.
"""

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from transformers.activations import ACT2FN
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import ConversionOps, PrefixChange, Split, WeightConverter
from transformers.modeling_utils import PreTrainedModel

from patchgen.edits import Hole, edit, new, old


class FusedLinear(nn.Linear):
    """Linear layers of one input; `parts` has their widths, by their names in checkpoints."""

    def __init__(self, in_features: int, parts: dict[str, int], bias: bool = True) -> None:
        super().__init__(in_features, sum(parts.values()), bias=bias)
        self.parts = parts


class Rows(ConversionOps):
    """Concatenates the rows of several matrices, or splits those of one into `parts`."""

    def __init__(self, parts: dict[str, int]) -> None:
        self.parts = parts

    def convert(self, input_dict: Any, source_patterns: Any, target_patterns: Any, **_: Any) -> Any:
        read = [rows for name in source_patterns for rows in input_dict[name]]
        made = [torch.cat(read)] if len(read) > 1 else read[0].split([*self.parts.values()])
        return dict(zip(target_patterns, made, strict=True))

    @property
    def reverse_op(self) -> ConversionOps:
        return self


def fused_conversions(model: Any) -> Iterator[WeightConverter]:
    """From checkpoints of the parent, of its base model or of a head, to the fused layers."""
    for path, layer in model.named_modules():
        if isinstance(layer, FusedLinear):
            owner, name = path.removeprefix(f"{model.base_model_prefix}.").rsplit(".", 1)
            for kind, _ in layer.named_parameters():
                parts = [f"{owner}.{part}.{kind}" for part in layer.parts]
                yield WeightConverter(parts, f"{owner}.{name}.{kind}", [Rows(layer.parts)])


class FusedProjections:
    def post_init(self: Any) -> None:
        super().post_init()
        self._weight_conversions = [*fused_conversions(self)]

    @staticmethod
    def _load_pretrained_model(model: Any, state: Any, files: Any, load: Any, *args: Any) -> Any:
        if load.hf_quantizer or load.device_mesh or getattr(model, "_device_mesh", None):
            raise ValueError("fused layers are loaded whole: quantize or split them afterwards")
        # For this model alone: a registered conversion would apply to transformers' own model too.
        load.weight_mapping.extend(fused_conversions(model))
        return PreTrainedModel._load_pretrained_model(model, state, files, load, *args)


class Between(ConversionOps):
    """An operation that reads and makes names of its own, as a step of a longer conversion."""

    def __init__(self, operation: ConversionOps, sources: list[str], targets: list[str]) -> None:
        self.operation, self.sources, self.targets = operation, sources, targets

    def convert(self, input_dict: Any, **rest: Any) -> Any:
        rest |= {"source_patterns": self.sources, "target_patterns": self.targets}
        # Loading and saving give lists, and a step before this one tensors.
        given = {name: [it] if torch.is_tensor(it) else it for name, it in input_dict.items()}
        return self.operation.convert(given, **rest)

    @property
    def reverse_op(self) -> ConversionOps:
        return Between(self.operation.reverse_op, self.targets, self.sources)


def known_conversions(model: Any, known: list[Any]) -> list[Any]:
    """`fused_conversions`, and those from tensors that one of `known` splits into their parts."""
    ours = [*fused_conversions(model)]
    converters = [each for each in known if isinstance(each, WeightConverter)]
    return [*ours, *(made for each in converters for made in through_known(each, ours))]


def through_known(known: WeightConverter, ours: list[WeightConverter]) -> Iterator[WeightConverter]:
    back = known.reverse_transform()
    for fused in ours:
        found = {part: back.rename_source_key(part) for part in fused.source_patterns}
        made = {pattern: part for part, (_, pattern) in found.items() if pattern is not None}
        if not made:
            continue
        one_tensor = len(known.source_patterns) == 1
        if not one_tensor or len(made) != len(found) or made.keys() != {*back.source_patterns}:
            raise ValueError(f"{fused.target_patterns[0]} cannot be loaded through {known}")
        [rows] = fused.operations
        widths = dict(zip(found, rows.parts.values(), strict=True))
        parts = [made[pattern] for pattern in back.source_patterns]
        split = Rows({part: widths[part] for part in parts})
        # `Split` asks the model for the widths of layers that it does not have.
        steps = [split if isinstance(each, Split) else each for each in known.operations]
        tensor = found[parts[0]][0]
        chain = [Between(each, [tensor], parts) for each in steps]
        chain.append(Between(rows, fused.source_patterns, fused.target_patterns))
        yield WeightConverter(tensor, fused.target_patterns[0], chain)


class KnownConversions:
    """Goes before one of the mixins, and keeps transformers' conversions of the parent."""

    def post_init(self: Any) -> None:
        super().post_init()
        known = get_model_conversion_mapping(self, add_legacy=False)
        known = [each for each in known if not isinstance(each, PrefixChange)]
        self._weight_conversions = [*known, *known_conversions(self, known)]

    @staticmethod
    def _load_pretrained_model(model: Any, state: Any, files: Any, load: Any, *args: Any) -> Any:
        if load.hf_quantizer or load.device_mesh or getattr(model, "_device_mesh", None):
            raise ValueError("fused layers are loaded whole: quantize or split them afterwards")
        ours = known_conversions(model, load.weight_mapping)
        # Of all that fit a name, loading takes the first and saving the last.
        load.weight_mapping[:0] = ours
        loaded = PreTrainedModel._load_pretrained_model(model, state, files, load, *args)
        model._weight_conversions.sort(key=lambda each: each in ours)
        return loaded


GATHERED = {"colwise": "colwise_gather_output", "rowwise": "rowwise_split_input"}


def gather_fused(model: Any, plan: dict[str, str]) -> dict[str, str]:
    """The plan, for tensor parallelism or experts, that gathers the output of fused layers."""
    plan = dict(plan)
    for path, layer in model.named_modules():
        if isinstance(layer, FusedLinear):
            owner, name = re.sub(r"\.\d+\.", ".*.", path).rsplit(".", 1)
            styles = [plan.pop(f"{owner}.{part}", None) for part in layer.parts]
            if any(styles):
                beside = {each for each in plan if each.startswith(f"{owner}.")}
                plan |= {each: GATHERED.get(plan[each], "replicate") for each in beside}
                plan[f"{owner}.{name}"] = "colwise_gather_output"
    return plan


class SplitProjections(FusedProjections):
    def post_init(self: Any) -> None:
        super().post_init()
        self._tp_plan = gather_fused(self, self._tp_plan)
        self._ep_plan = gather_fused(self, self._ep_plan)


class WholeProjections(FusedProjections):
    _plans_refused = {"tp": "its fused layers stand beside layers that are split in another way"}

    def post_init(self: Any) -> None:
        super().post_init()
        self._tp_plan: dict[str, str] = {}


class FusedQKV:
    @edit("__init__")
    def make_one_of_three(self: Any, inputs: Hole, queries: Hole, keys: Hole, bias: Hole) -> None:
        with old:
            self.q_proj = nn.Linear(inputs, queries, bias=bias)
            self.k_proj = nn.Linear(inputs, keys, bias=bias)
            self.v_proj = nn.Linear(inputs, keys, bias=bias)
        with new:
            self.qkv_parts = {"q_proj": queries, "k_proj": keys, "v_proj": keys}
            self.qkv_proj = FusedLinear(inputs, self.qkv_parts, bias=bias)

    @edit("forward")
    def project_once(  # type: ignore[no-untyped-def]
        self, hidden_states, input_shape, query_states, key_states, value_states
    ) -> None:
        with old:
            input_shape = hidden_states.shape[:-1]
        with new:
            input_shape = hidden_states.shape[:-1]
            query_states, key_states, value_states = self.qkv_proj(hidden_states).split(
                [*self.qkv_parts.values()], -1
            )

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
            parts = {"gate_proj": outputs, "up_proj": outputs}
            self.gate_up_proj = FusedLinear(inputs, parts, bias=bias)

    @edit("forward")
    def project_once(self: Any, x: Any, down_proj: Any) -> None:
        with old:
            down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
        with new:
            gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
            down_proj = self.down_proj(self.act_fn(gate) * up)


# Formulas that are written out in Python, and are one operation of torch.
TANH_GELUS = ("gelu_new", "gelu_accurate", "gelu_python_tanh")


class FusedGelu:
    @edit("__init__")
    def use_one_operation(self: Any, name: Hole) -> None:
        with old:
            ACT2FN[name]
        with new:
            ACT2FN["gelu_pytorch_tanh" if name in TANH_GELUS else name]
