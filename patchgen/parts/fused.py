"""Linear layers of one input as one matrix product, and the tanh form of GELU as one operation.

    class LlamaMLP(FusedGateUp, llama.LlamaMLP): ...                              gate_proj, up_proj
    class LlamaAttention(FusedQKV, llama.LlamaAttention): ...                     q_proj, k_proj, v_proj
    class LlamaPreTrainedModel(SplitProjections, llama.LlamaPreTrainedModel): ...
    class GPT2MLP(FusedGelu, gpt2.GPT2MLP): ...

**Checkpoints** are the parent's: `from_pretrained` puts the matrices together and `save_pretrained` takes them apart,
for every class of the model, by transformers' `WeightConverter`.  The converters belong to the model that is loaded
and are registered under no name: names are for the whole process, and transformers' own Llama would be asked for
fused weights.  A checkpoint that was saved fused (`save_original_format=False`) loads as it is.

Of a `PreTrainedModel`, one mixin:

    FusedProjections    the parent has no plan for tensor parallelism
    SplitProjections    it has one: what fused layers give is gathered, as in transformers' Phi-3
    WholeProjections    it has one that splits something beside the layers in a way of its own: none is left

and before it `KnownConversions`, where transformers converts checkpoints of the parent already.

Other than in the parent are therefore `state_dict()`, the names of parameters and modules (LoRA's target is `qkv_proj`
and `gate_up_proj`, and one low-rank update serves all parts), and the order in which weights are drawn.  The rows of
the parts lie one above the other, `q_proj` first.

Refused, by a ValueError: quantised loading, whose weights are not in rows; loading in shards (`distributed_config`:
tensor parallelism, FSDP2 of transformers), which would cut across the parts.  Load it whole, and split it then.
Weights tied to one part alone have no place here.

**Rounding.**  A product of stacked matrices has the same sums, which a library may order otherwise; the gradient of
the input is one sum where it was a sum of two or three.  `gelu_new` and its like are computed in float32 by one
operation, where the parent rounds each of eight: nearer to the truth in bfloat16, equal up to rounding in float32.
Not `gelu_fast`, whose constant is another one.
"""

import re
from typing import Any

import torch
from torch import nn
from transformers.activations import ACT2FN
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import ConversionOps, PrefixChange, WeightConverter
from transformers.modeling_utils import PreTrainedModel

from patchgen.edits import Hole, edit, new, old


class FusedLinear(nn.Linear):
    """Several linear layers of one input; `parts` gives how wide each is, by the name that it has in checkpoints."""

    def __init__(self, in_features: int, parts: dict[str, int], bias: bool = True) -> None:
        super().__init__(in_features, sum(parts.values()), bias=bias)
        self.parts = parts


class Rows(ConversionOps):
    """Puts rows one above the other, or takes them apart again."""

    def __init__(self, widths: list[int], apart: bool = False) -> None:
        self.widths, self.apart = widths, apart

    def convert(
        self, input_dict: Any, source_patterns: Any, target_patterns: Any, **kwargs: Any
    ) -> Any:
        rows = [
            each[0] if isinstance(each, list) else each
            for each in map(input_dict.get, source_patterns)
        ]
        return dict(
            zip(
                target_patterns,
                rows[0].split(self.widths) if self.apart else [torch.cat(rows)],
                strict=True,
            )
        )

    @property
    def reverse_op(self) -> ConversionOps:
        return Rows(self.widths, not self.apart)


def fused_layers(model: nn.Module) -> list[tuple[str, str, FusedLinear]]:
    """Each with the path of its owner, which ends with a dot, and its own name."""
    found = [(path.rpartition("."), module) for path, module in model.named_modules()]
    return [
        (f"{owner}.", name, module)
        for (owner, _, name), module in found
        if isinstance(module, FusedLinear)
    ]


def fused_conversions(model: Any) -> list[Any]:
    """Between the parent's checkpoints, of the base model or of a head, and the fused layers of `model`."""
    found = []
    for owner, name, layer in fused_layers(model):
        owner = owner.removeprefix(f"{model.base_model_prefix}.")
        for kind, _ in layer.named_parameters():
            parts = [f"{owner}{part}.{kind}" for part in layer.parts]
            found.append(
                WeightConverter(parts, f"{owner}{name}.{kind}", [Rows([*layer.parts.values()])])
            )
    return found


class FusedProjections:
    def post_init(self: Any) -> None:
        super().post_init()
        self._weight_conversions = fused_conversions(self)

    @staticmethod
    def _load_pretrained_model(
        model: Any, state_dict: Any, files: Any, load_config: Any, *args: Any
    ) -> Any:
        if (
            load_config.hf_quantizer
            or load_config.device_mesh
            or getattr(model, "_device_mesh", None)
        ):
            raise ValueError(
                f"{type(model).__name__} is loaded whole: quantise it or split it afterwards"
            )
        # Of this model alone: what is registered by name would reach transformers' own model too.
        load_config.weight_mapping.extend(fused_conversions(model))
        return PreTrainedModel._load_pretrained_model(model, state_dict, files, load_config, *args)


class KnownConversions:
    """Before one of the mixins: what transformers converts of the parent's checkpoints is converted back, too."""

    def post_init(self: Any) -> None:
        super().post_init()
        known = get_model_conversion_mapping(self, add_legacy=False)
        known = [each for each in known if not isinstance(each, PrefixChange)]
        self._weight_conversions = [*known, *self._weight_conversions]


GATHERED = {"colwise": "colwise_gather_output", "rowwise": "rowwise_split_input"}


def gather_fused(model: Any) -> None:
    """Let the plan for tensor parallelism gather what fused layers give, as that of transformers' Phi-3 does."""
    plan = model._tp_plan = dict(model._tp_plan)
    for path, name, layer in fused_layers(model):
        owner = re.sub(r"\.\d+\.", ".*.", path)
        styles = [plan.pop(f"{owner}{part}", None) for part in layer.parts]
        if any(styles):
            beside = {each for each in plan if each.startswith(owner)}
            plan |= {each: GATHERED.get(plan[each], "replicate") for each in beside}
            plan[f"{owner}{name}"] = "colwise_gather_output"


class SplitProjections(FusedProjections):
    def post_init(self: Any) -> None:
        super().post_init()
        gather_fused(self)


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
    def project_once(
        self: Any,
        hidden_states: Any,
        input_shape: Any,
        query_states: Any,
        key_states: Any,
        value_states: Any,
    ) -> None:
        with old:
            input_shape = hidden_states.shape[:-1]
        with new:
            input_shape = hidden_states.shape[:-1]
            query_states, key_states, value_states = self.qkv_proj(hidden_states).split(
                [*self.qkv_parts.values()], dim=-1
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
