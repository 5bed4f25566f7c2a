"""Mixtures and weights in another layout: the parts `moe`, `grouped` and `stacked`.

moe: a mixture whose experts are copies of the FFN computes what the dense model does.  That cannot
tell one copy from another, and its loss does not depend on the router.  So each expert has its
inner features in another order; and whenever a variant is observed, one of its mixtures runs with
experts that differ, beside a formula that runs every expert on every token in float64. grouped:
grouped GEMMs run the experts, and give each token what the parent's loop gives it.  This is no part
of patchgen: it is checked if a diff uses transformers' grouped experts. stacked: weights have
another layout, and checkpoints stay the parent's.  Gradients are compared in the parent's terms:
they are split as transformers splits weights that it saves.  replay: routers take the experts of
another forward pass if these are given, and those of the parent if not.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion

from patchgen.verifying.differences import EQUAL, NARROW, REFORMULATED, REORDERED
from patchgen.verifying.inputs.arguments import CannotBuild
from patchgen.verifying.models.build import GAIN, draw_weights
from patchgen.verifying.observe.evidence import Evidence
from patchgen.verifying.observe.step import outputs
from patchgen.verifying.parts.part_check import (
    DoesNotLoad,
    Observation,
    PairFacts,
    PartCheck,
    Route,
    beside_eager,
)

_LOOP = {"experts_implementation": "eager"}
PRODUCTS = ("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm")
GROUPED_PRODUCTS = ("aten._grouped_mm", "transformers.grouped_mm_fallback")
# Losses of the router are not in the parent's loss, nor its logits among the parent's outputs.
OPTIONS = {
    "num_experts": 5,
    "num_experts_per_tok": 2,
    "router_aux_loss_coef": 0.0,
    "router_z_loss_coef": 0.0,
    "output_router_logits": False,
}
# Of a root mean square, where both sides round each product to a narrow dtype.
NARROW_ROUNDINGS = 16
ROUTER = ".router.weight"


def _count(evidence: Evidence, *kernels: str) -> int:
    return sum(evidence.kernels[name] for name in kernels)


# --- moe


def build(
    parent: PreTrainedModel,
    variant_class: type[PreTrainedModel],
    folder: Path,
    settings: Mapping[str, Any],
) -> PreTrainedModel:
    """Upcycled from the parent's checkpoint, with inner features in another order in each expert.

    Raises DoesNotLoad where more than routers is missing, or anything is left over.
    """
    parent.save_pretrained(folder / "dense")
    model, report = variant_class.from_pretrained(
        folder / "dense", output_loading_info=True, dtype=parent.dtype, **OPTIONS, **settings
    )
    wrong = {kind: sorted(map(str, keys)) for kind, keys in report.items()}
    wrong["missing_keys"] = [key for key in wrong["missing_keys"] if not key.endswith(ROUTER)]
    if any(wrong.values()):
        raise DoesNotLoad(wrong)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for mixture in mixtures_of(model):
            router = mixture.router.weight
            drawn = torch.randn(router.shape, generator=draw, dtype=torch.float64)
            router.copy_(GAIN * router.shape[1] ** -0.5 * drawn)
            for name, weight in mixture.experts.named_parameters():
                weight.copy_(rolled(name, weight, 1))
    return model


def mixtures_of(model: nn.Module) -> list[Any]:
    return [module for module in model.modules() if type(module).__name__ == "Mixture"]


def rolled(name: str, weight: Tensor, by: int) -> Tensor:
    """The inner features of expert e moved by e places, or back where `by` is -1."""
    moved = []
    for expert, each in enumerate(weight):
        places = by * expert
        if name == "down_proj":
            each = each.roll(places, 1)
        elif name != "down_proj_bias":
            halves = each.chunk(2) if name.startswith("gate_up_proj") else (each,)
            each = torch.cat([half.roll(places, 0) for half in halves])
        moved.append(each)
    return torch.stack(moved)


def moe_terms(observation: Observation, variant: PreTrainedModel) -> Observation:
    """Gradients of experts summed up to those of the FFN, without those of routers."""
    insist_on_formula(mixtures_of(variant)[0])
    dense: Mapping[str, tuple[str, ...]] = variant._dense_weights
    renamed: dict[str, Tensor] = {}
    for name, tensor in observation.items():
        weight = next((each for each in dense if name.endswith(f".{each}")), None)
        if weight is not None:
            summed = rolled(weight.rpartition(".")[2], tensor, -1).sum(0)
            layer = name.removesuffix(weight)
            # A Conv1D's features of its input come first.
            turned = variant._dense_weights_transposed and summed.dim() == 2
            parts = [part.t() if turned else part for part in summed.chunk(len(dense[weight]))]
            renamed |= {layer + each: part for each, part in zip(dense[weight], parts, strict=True)}
        elif not name.endswith(ROUTER):
            renamed[name] = tensor
    return renamed


def insist_on_formula(mixture: Any) -> None:
    """Raise ValueError if `mixture`, with different experts, does not compute `formula`."""
    mixed = copy.deepcopy(mixture).eval()
    draw_weights(mixed)
    own = dict(mixed.named_parameters())
    router, draw = own["router.weight"], torch.Generator().manual_seed(1)
    drawn = torch.randn(2, 11, router.shape[1], generator=draw, dtype=torch.float64)
    x_TD, weights_TD = drawn.to(router)
    x_TD.requires_grad_()
    ours = mixed(x_TD[None])[0]
    (ours * weights_TD).sum().backward()
    wide = {name: each.detach().double().requires_grad_() for name, each in own.items()}
    wide_x = x_TD.detach().double().requires_grad_()
    theirs = formula(wide, wide_x, mixture.experts.config, mixed.experts.act_fn)
    (theirs * weights_TD.double()).sum().backward()
    with torch.autocast(x_TD.device.type, torch.bfloat16):  # where it would choose other experts
        logits = mixed.router(x_TD)[0]
    pairs = {"output": (ours, theirs), "gradient of its input": (x_TD.grad, wide_x.grad)}
    pairs["router's product under autocast"] = logits, wide_x @ wide["router.weight"].T
    pairs |= {f"gradient of {name}": (own[name].grad, wide[name].grad) for name in own}
    for name, (one, two) in pairs.items():
        if one is None or two is None or not _are_near(one, two.to(one.device), router.dtype):
            what = "of a mixture is not that of its experts, one after the other"
            raise ValueError(f"the {name} {what}")


def formula(
    weights: Mapping[str, Tensor], x_TD: Tensor, config: Any, act: Callable[[Tensor], Tensor]
) -> Tensor:
    """Every expert on every token, by gates that are zero for those not chosen."""
    logits_TE = x_TD @ weights["router.weight"].T
    best = logits_TE.topk(config.num_experts_per_tok).indices
    gates_TE = logits_TE.softmax(-1) * torch.zeros_like(logits_TE).scatter(1, best, 1)
    if config.norm_topk_prob:
        gates_TE = gates_TE / gates_TE.sum(-1, keepdim=True)

    def linear(name: str, expert: int, x: Tensor) -> Tensor:
        out, bias = x @ weights[f"experts.{name}"][expert].T, f"experts.{name}_bias"
        return out + weights[bias][expert] if bias in weights else out

    total = torch.zeros_like(x_TD)
    for expert in range(config.num_experts):
        if "experts.gate_up_proj" in weights:
            gate, up = linear("gate_up_proj", expert, x_TD).chunk(2, -1)
            inner = act(gate) * up
        else:
            inner = act(linear("up_proj", expert, x_TD))
        total = total + gates_TE[:, expert, None] * linear("down_proj", expert, inner)
    return total


def _are_near(one: Tensor, two: Tensor, dtype: torch.dtype) -> bool:
    difference, size = (one.double() - two).abs(), two.abs()
    if dtype in NARROW:
        allowed = NARROW_ROUNDINGS * torch.finfo(dtype).eps
        return bool(difference.square().mean().sqrt() <= allowed * size.square().mean().sqrt())
    return bool(difference.max() <= REORDERED.at(dtype) * size.max())


def moe_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Two grouped GEMMs for each mixture, and no more products for more experts."""
    ran, grouped = variant.runs_of("Mixture"), variant.kernels["aten._grouped_mm"]
    # Each product of a forward pass has two in the backward pass.
    if not ran or grouped != 3 * 2 * ran:
        yield f"{grouped} grouped GEMMs in {ran} mixtures"
    # An FFN has two at least, so that its place and the router's one take one more.
    every = (*PRODUCTS, *GROUPED_PRODUCTS)
    more = _count(variant, *every) - _count(parent, *every)
    if more > 3 * ran:
        yield f"{more} products more than the dense model has: experts run one after the other"


MOE = PartCheck(
    part="moe",
    routes=lambda parent_class: (
        Route("dense", REFORMULATED),
        Route("dense, by a loop over experts", REFORMULATED, variant=_LOOP),
    ),
    effect=moe_effect,
    build=build,
    terms=moe_terms,
    # A mixture has more to compute than the FFN.  Biases of experts get their gradient from
    # transformers, token by token in a narrow dtype.
    without=frozenset({"work", "work in training", "work under autocast", "of many tokens"}),
)


# --- grouped


def grouped_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Grouped GEMMs ran, and no more products beside them than the parent has."""
    grouped = variant.kernels["aten._grouped_mm"]
    if not grouped or grouped % 3:  # one forward, two backward
        yield f"{grouped} grouped GEMMs"
    ours, theirs = _count(variant, *PRODUCTS), _count(parent, *PRODUCTS)
    if ours > theirs:
        yield f"{ours} other products where the parent has {theirs}"


# Sums of more than two terms are in another order, and rounded once.
GROUPED = PartCheck(
    part="grouped",
    routes=lambda parent_class: (
        Route("its experts", REFORMULATED),
        Route("its experts, the variant's eager", REFORMULATED, variant=_LOOP),
    ),
    effect=grouped_effect,
    same_rng_order=False,  # dropout within experts is drawn for all of them at once
)


# --- stacked

GRADIENT = "gradient of "
OF_AN_EXPERT = re.compile(r"\bexperts\.\w*\d+\.")


def stacked_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Parameters are fewer: some of the parent's are one."""
    theirs, ours = (len(list(each.paths[0][0].parameters())) for each in (parent, variant))
    if ours >= theirs:
        yield f"{ours} parameters where the parent has {theirs}"


def stacked_terms(observed: Observation, variant: PreTrainedModel) -> Observation:
    """Gradients under the names and in the layout of the parent's checkpoint.

    Without the zeros of experts that no token chose: a loop over modules gives them no gradient.
    """
    is_gradient = {name: name.startswith(GRADIENT) for name in observed}
    gradients = {n.removeprefix(GRADIENT): t for n, t in observed.items() if is_gradient[n]}
    kept = {name: tensor for name, tensor in observed.items() if not is_gradient[name]}
    for name, each in revert_weight_conversion(variant, gradients).items():
        if bool(each.any()) or not OF_AN_EXPERT.search(name):
            kept[f"{GRADIENT}{name}"] = each
    return kept


STACKED = PartCheck(
    part="stacked",
    routes=lambda parent_class: (Route("its weights", REORDERED),),
    effect=stacked_effect,
    terms=stacked_terms,
)


# --- replay


def replay_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Routers take the experts that they are given, in a recompute too, and others without them."""
    model: Any = variant.paths[0][0]
    given = {name: tensor for name, tensor in facts.inputs.items() if name != "labels"}
    with torch.no_grad(), model.record_routing() as forwards:
        own = _states(model, given)
    if not any(hasattr(module, "replayed") for module in model.modules()):
        raise CannotBuild("no layer of its tiny model has a router")
    if not forwards:
        yield "no router was recorded"
        return
    experts = forwards[0].roll(1, 0)  # each token takes those of another
    with torch.no_grad(), model.record_routing() as replayed:
        others = _states(model, {**given, "routed_experts": experts})
    if not torch.equal(replayed[0], experts):
        yield "routers took other experts than they were given"
    if torch.allclose(own, others):
        yield "nothing depends on the experts that are given"
    with torch.no_grad():
        again = _states(model, {**given, "routed_experts": forwards[0]})
        chosen = _states(model, {**given, "routed_experts": torch.full_like(experts, -1)})
    if not (torch.equal(own, again) and torch.equal(own, chosen)):
        yield "the experts that a router chose are not the same when they are replayed"


def _states(model: Any, given: Mapping[str, Any]) -> Tensor:
    out = model.eval()(**given, use_cache=False, return_dict=True)
    return next(tensor for _, tensor in outputs(out))


REPLAY = PartCheck(
    part="replay",
    routes=lambda parent_class: beside_eager("its routers", EQUAL, {}, {}),
    effect=replay_effect,
    # Else a tiny DeepSeek has no mixture in its layers.
    effect_changes={"first_k_dense_replace": 1},
)
