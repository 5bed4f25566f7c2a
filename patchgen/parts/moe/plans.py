"""How a mixture is split over processes: transformers' rules for experts, in the place of those for the FFN."""

from typing import Any

from torch import nn

from patchgen.parts.moe.mixture import Mixture
from patchgen.parts.plans import refuse_plan, starred


def split_experts(model: Any) -> None:
    """Let the plans of `model` split the experts of its mixtures, as those of transformers' Mixtral do.

    Tensor parallelism takes inner features of every expert, expert parallelism whole experts.  A model whose parent
    has no plan for tensor parallelism has none.
    """
    mixtures = {starred(path): module for path, module in model.named_modules() if isinstance(module, Mixture)}
    for path, mixture in mixtures.items():
        experts = f"{path}.experts"
        for name, _ in mixture.experts.named_parameters():
            model._ep_plan[f"{experts}.{name}"] = "grouped_gemm"
        model._ep_plan[experts] = "ep_dispatch_experts"
    if not mixtures or not model._tp_plan:
        return
    if why := not_in_slices(model, mixtures):
        refuse_plan(model, "tp", why)
        return
    kinds: dict[str, list[nn.Module]] = {}
    for path, module in model.named_modules():
        kinds.setdefault(starred(path), []).append(module)
    kept = {path: style for path, style in model._tp_plan.items() if not is_idle(kinds.get(path, []))}
    for path, mixture in mixtures.items():
        # Gate and up lie one above the other: a process takes the same features of both.
        up = "packed_colwise" if mixture.experts.has_gate else "colwise"
        kept[f"{path}.experts.{mixture.experts.up_name}"] = up
        kept[f"{path}.experts.down_proj"] = "rowwise"
        kept[f"{path}.experts"] = "moe_tp_experts"
    model._tp_plan = kept


def is_idle(modules: list[nn.Module]) -> bool:
    """Whether a rule for `modules` would have nothing to split: there is none, or each is a placeholder."""
    return all(isinstance(module, nn.Identity) for module in modules)


def not_in_slices(model: Any, mixtures: dict[str, Mixture]) -> str:
    """Why the mixtures of `model` cannot be split by inner features; empty where they can."""
    if any(mixture.experts.has_bias for mixture in mixtures.values()):
        return "the experts have biases, which every process would add. Split them by expert: ep_size"
    known = {starred(path) for path, module in model.named_modules() if isinstance(module, nn.Identity)}
    layers = {starred(path) for path, module in model.named_modules() if isinstance(module, nn.Linear)}
    if both := sorted(known & layers & model._tp_plan.keys()):
        return f"{both[0]} is a layer in some layers, and in those with experts nothing"
    return ""
