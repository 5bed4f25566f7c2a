# What mixins and edits name is the parent's, and edits are never run.
# mypy: disable-error-code="attr-defined, misc, no-untyped-def, name-defined"
"""The experts of a mixture as modules of `nn.Linear`, for LoRA, for four bits, and back.

transformers has the experts of a layer as stacked parameters, `gate_up_proj` of (E, 2I, H) and
`down_proj` of (E, H, I).  What goes by `nn.Linear` does not see them: LoRA of PEFT on the
projections of one expert, bitsandbytes, hooks that observe inputs for quantization.  Here each
expert is a module with Linears:

    model.layers.0.mlp.experts.7.gate_linear
    model.layers.0.mlp.experts.7.up_linear
    model.layers.0.mlp.experts.7.down_linear

    LoraConfig(target_modules=["q_proj", "v_proj", "gate_linear", "up_linear", "down_linear"])

They are not called `gate_proj` or `w1` as in checkpoints: PEFT takes those names, of the models
that it knows, for stacked parameters.

Numbers are those of `experts_implementation="eager"`, a loop over the experts that were chosen, and
so is its speed; the grouped products of other implementations need stacked weights.  Checkpoints
are the parent's: one of experts by themselves has its tensors renamed, one of stacked weights is
split, and what `save_pretrained` writes is what the parent's would.  So an adapter is trained here,
merged by `merge_and_unload()`, saved, and run in transformers' own model, or in an engine.

Several processes: an expert that no token chose has no gradient.  DDP needs
`find_unused_parameters=True`, and ZeRO-3 the class of the experts in `set_z3_leaf_modules`.  Plans
for tensor and expert parallelism are for stacked weights, and the model has none.
"""

import re
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from transformers import initialization as init
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import (
    Chunk,
    Concatenate,
    ConversionOps,
    MergeModulelist,
    PrefixChange,
    WeightConverter,
    WeightRenaming,
    WeightTransform,
)
from transformers.modeling_utils import PreTrainedModel

from patchgen.edits import Hole, edit, new, old

# The Linears in which the rows of a stacked weight are, in their order.
LINEARS = {
    "gate_up_proj": ("gate_linear", "up_linear"),
    "up_proj": ("up_linear",),
    "down_proj": ("down_linear",),
}
STACKED = re.compile(r"(.*\bexperts)\.(gate_up_proj|up_proj|down_proj)")


class ExpertOfLinears(nn.Module):
    """The weights of one expert.  What is computed with them is in the loop over experts."""

    def __init__(self, hidden: int, inner: int, gated: bool) -> None:
        super().__init__()
        if gated:
            self.gate_linear = nn.Linear(hidden, inner, bias=False)
        self.up_linear = nn.Linear(hidden, inner, bias=False)
        self.down_linear = nn.Linear(inner, hidden, bias=False)


class HoldsLinears:
    def add_experts(self, number: int, hidden: int, inner: int, gated: bool = True) -> None:
        for expert in range(number):
            self.add_module(str(expert), ExpertOfLinears(hidden, inner, gated))

    def expert(self, index: torch.Tensor) -> Any:
        return self.get_submodule(str(int(index)))


class GatedLinears(HoldsLinears):
    @edit("__init__")
    def add_linears(self, experts: Hole, inner: Hole, hidden: Hole):
        with old:
            self.gate_up_proj = nn.Parameter(torch.empty(experts, 2 * inner, hidden))
            self.down_proj = nn.Parameter(torch.empty(experts, hidden, inner))
        with new:
            self.add_experts(experts, hidden, inner)

    @edit("forward")
    def run_down(self, linear: Hole, states: Hole, index: Hole):
        with old:
            linear(states, self.down_proj[index])
        with new:
            self.expert(index).down_linear(states)


class GateAndUp(GatedLinears):
    @edit("forward")
    def run_gate_and_up(self, gate, up, linear: Hole, states: Hole, index: Hole):
        with old:
            gate, up = linear(states, self.gate_up_proj[index]).chunk(2, dim=-1)
        with new:
            gate, up = self.expert(index).gate_linear(states), self.expert(index).up_linear(states)


class GateUpTogether(GatedLinears):
    """For experts whose `_apply_gate` takes both in one tensor."""

    @edit("forward")
    def run_gate_and_up(self, linear: Hole, states: Hole, index: Hole):
        with old:
            self._apply_gate(linear(states, self.gate_up_proj[index]))
        with new:
            self._apply_gate(self.gate_and_up(states, index))

    def gate_and_up(self, states: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        expert = self.expert(index)
        return torch.cat([expert.gate_linear(states), expert.up_linear(states)], dim=-1)


class UpAlone(HoldsLinears):
    """For experts without a gate."""

    @edit("__init__")
    def add_linears(self, experts: Hole, inner: Hole, hidden: Hole):
        with old:
            self.up_proj = nn.Parameter(torch.empty(experts, inner, hidden))
            self.down_proj = nn.Parameter(torch.empty(experts, hidden, inner))
        with new:
            self.add_experts(experts, hidden, inner, gated=False)

    @edit("forward")
    def run_up(self, linear: Hole, states: Hole, index: Hole):
        with old:
            linear(states, self.up_proj[index])
        with new:
            self.expert(index).up_linear(states)

    @edit("forward")
    def run_down(self, linear: Hole, states: Hole, index: Hole):
        with old:
            linear(states, self.down_proj[index])
        with new:
            self.expert(index).down_linear(states)


class ModelOfLinears:
    """Reads and writes the parent's checkpoints."""

    def post_init(self) -> None:
        super().post_init()
        reason = "experts as Linears are not split by tensor or by expert parallelism"
        self._tp_plan: dict[str, str] = {}
        self._ep_plan: dict[str, str] = {}
        self._plans_refused = {"tp": reason, "ep": reason}
        # Of a model that is not loaded transformers would take those of stacked weights.
        theirs = get_model_conversion_mapping(self, add_legacy=False)
        kept = [each for each in theirs if not isinstance(each, PrefixChange)]
        self._weight_conversions = by_expert(self, kept)

    @staticmethod
    def _load_pretrained_model(model: Any, state: Any, files: Any, load: Any, *args: Any) -> Any:
        load.weight_mapping[:] = by_expert(model, load.weight_mapping, loading=True)
        return PreTrainedModel._load_pretrained_model(model, state, files, load, *args)


class InitializedAsLinears:
    """The rule for all Linears is that of experts."""

    @edit("_init_weights")
    def leave_experts_to_linears(self, experts: Hole, std: Hole):
        with old:
            init.normal_(experts.gate_up_proj, mean=0.0, std=std)
            init.normal_(experts.down_proj, mean=0.0, std=std)
        with new:
            pass


class UngatedInitializedAsLinears:
    @edit("_init_weights")
    def leave_experts_to_linears(self, experts: Hole, std: Hole):
        with old:
            init.normal_(experts.up_proj, mean=0.0, std=std)
            init.normal_(experts.down_proj, mean=0.0, std=std)
        with new:
            pass


def by_expert(
    model: Any, theirs: Iterable[WeightTransform], loading: bool = False
) -> list[WeightTransform]:
    """The conversions of the parent's checkpoints, `theirs`, to the Linears of each expert.

    What is loaded may have stacked weights too, as `save_original_format=False` writes them.
    """
    modules = model.named_modules()
    experts = {name: each for name, each in modules if isinstance(each, ExpertOfLinears)}
    if not experts:
        return [*theirs]
    number = 1 + max(int(name.rpartition(".")[2]) for name in experts)
    is_gated = any(hasattr(expert, "gate_linear") for expert in experts.values())
    left = {"gate_up_proj" if is_gated else "up_proj", "down_proj"}
    kept = list[WeightTransform]()
    ours = list[WeightTransform]()
    for conversion in theirs:
        matches = [STACKED.fullmatch(target) for target in conversion.target_patterns]
        if isinstance(conversion, WeightConverter) and matches[0] is not None:
            ours += rename_by_expert(conversion) or [split_by_expert(conversion, number)]
            left -= set() if loading else {matches[0][2]}
        else:
            kept.append(conversion)
    for weight in sorted(left):
        name = rf"\.experts\.{weight}"
        ours.append(split_by_expert(WeightConverter(name, name, [Chunk()]), number))
    # Behind all renamings, as the parent's conversions of weights are.
    return [*kept, *ours]


def rename_by_expert(stacking: WeightConverter) -> list[WeightTransform]:
    """New names for weights of experts that `stacking` would stack; none if it does more."""
    kinds = [type(operation) for operation in stacking.operations]
    if kinds not in ([MergeModulelist], [MergeModulelist, Concatenate]):
        return []
    _, _, weight = stacking.target_patterns[0].rpartition(".")
    renamings = []
    for source, linear in zip(stacking.source_patterns, LINEARS[weight], strict=True):
        experts, _, name = source.partition("*.")
        own = name.removesuffix("weight")
        renaming = WeightRenaming(rf"({experts}\d+)\.{own}", rf"\1.{linear}.")
        renaming.scope_prefix = stacking.scope_prefix
        renaming.base_model_prefix = stacking.base_model_prefix
        renamings.append(renaming)
    return [*renamings]


def split_by_expert(stacking: WeightConverter, number: int) -> WeightTransform:
    """`stacking`, and its weights in those of each of `number` experts."""
    targets = []
    for target in stacking.target_patterns:
        experts, _, weight = target.rpartition(".")
        for expert in range(number):
            targets += [f"{experts}.{expert}.{linear}.weight" for linear in LINEARS[weight]]
    sources = [*stacking._original_source_patterns]
    return stacking.copy(sources, targets, operations=[SplitByExpert(stacking, number)])


class SplitByExpert(ConversionOps):
    """Converts as `stacking` does, and gives each Linear of `number` experts its rows."""

    supports_many_to_many = True

    def __init__(self, stacking: WeightConverter, number: int) -> None:
        self.stacking, self.number = stacking, number

    def convert(
        self, input_dict: Any, target_patterns: Any, full_layer_name: str, model: Any, **kwargs: Any
    ) -> Any:
        linears = len(target_patterns) // len(self.stacking.target_patterns) // self.number
        rows, columns = model.get_parameter(full_layer_name).shape
        wanted = torch.empty(self.number, linears * rows, columns, device="meta")
        pieces = []
        for weight in convert_as(self.stacking, input_dict, wanted, kwargs).values():
            for expert in first_of(weight):
                pieces += [piece.clone() for piece in expert.chunk(linears)]
        return dict(zip(target_patterns, pieces, strict=True))

    @property
    def reverse_op(self) -> ConversionOps:
        return StackByExpert(self.stacking, self.number)


class StackByExpert(ConversionOps):
    """The way back: stacks the rows of experts, and converts as `stacking` is undone."""

    supports_many_to_many = True

    def __init__(self, stacking: WeightConverter, number: int) -> None:
        self.stacking, self.number = stacking, number

    def convert(self, input_dict: Any, source_patterns: Any, **kwargs: Any) -> Any:
        undoing = self.stacking.reverse_transform()
        pieces = [first_of(input_dict[name]) for name in source_patterns]
        of_each = len(pieces) // len(undoing.source_patterns)
        stacked = {}
        for place, name in enumerate(undoing.source_patterns):
            weight = torch.stack(pieces[place * of_each :][:of_each])
            stacked[name] = [weight.view(self.number, -1, weight.shape[-1])]
        return convert_as(undoing, stacked, first_of(stacked[name]), kwargs)

    @property
    def reverse_op(self) -> ConversionOps:
        return SplitByExpert(self.stacking, self.number)


def convert_as(conversion: Any, weights: Any, stacked: torch.Tensor, kwargs: Any) -> Any:
    # What an operation asks of a model is the shape of the stacked weight.
    model = SimpleNamespace(get_parameter=lambda name: stacked)
    kwargs = {"full_layer_name": "", **kwargs, "model": model}
    kwargs["source_patterns"] = conversion.source_patterns
    kwargs["target_patterns"] = conversion.target_patterns
    for operation in conversion.operations:
        weights = operation.convert(weights, **kwargs)
    return weights


def first_of(weights: Any) -> torch.Tensor:
    return weights[0] if isinstance(weights, list) else weights
