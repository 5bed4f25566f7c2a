"""moe: a mixture whose experts are copies of the FFN computes what the dense model does.

The dense model cannot tell one copy from another, and its loss does not depend on the router. So
the experts are made different without changing their function: each has its inner features in
another order.  In addition, each time a variant is observed, one of its mixtures runs with experts
that differ, and is compared with a formula that runs every expert on every token in float64.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from patchgen.verify.differences import NARROW, REFORMULATED, REORDERED
from patchgen.verify.models.build import GAIN, draw_weights
from patchgen.verify.observe.evidence import Evidence
from patchgen.verify.parts.part_check import (
    Observation,
    PairFacts,
    PartCheck,
    PlantedError,
    Route,
    Scenario,
    defines,
    errors,
)

# Losses of the router are not in the parent's loss, nor its logits among the parent's outputs.
OPTIONS = {
    "num_experts": 5,
    "num_experts_per_tok": 2,
    "router_aux_loss_coef": 0.0,
    "router_z_loss_coef": 0.0,
    "output_router_logits": False,
}
PRODUCTS = (
    "aten.mm",
    "aten.addmm",
    "aten.bmm",
    "aten.baddbmm",
    "aten._grouped_mm",
    "transformers.grouped_mm_fallback",
)
# Of a root mean square, where both sides round each product to a narrow dtype.
NARROW_ROUNDINGS = 16


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """The dense model, compared with the grouped GEMM and with the loop."""
    loop = {"experts_implementation": "eager"}
    return (
        Route("dense", REFORMULATED),
        Route("dense, by a loop over experts", REFORMULATED, variant=loop),
    )


def build(
    parent: PreTrainedModel,
    variant_class: type[PreTrainedModel],
    folder: Path,
    settings: Mapping[str, Any],
) -> PreTrainedModel:
    """Upcycled from the parent's checkpoint, with inner features in another order in each expert.

    Raises ValueError where more than routers is missing, or anything is left over.
    """
    parent.save_pretrained(folder / "dense")
    model, report = variant_class.from_pretrained(
        folder / "dense", output_loading_info=True, dtype=parent.dtype, **OPTIONS, **settings
    )
    wrong = {
        kind: sorted(map(str, keys))
        for kind, keys in report.items()
        if kind != "missing_keys" and keys
    }
    if missing := sorted(
        key for key in report["missing_keys"] if not key.endswith(".router.weight")
    ):
        wrong["missing_keys"] = missing
    if wrong:
        raise ValueError(f"{variant_class.__name__} does not load the dense checkpoint: {wrong}")
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
    return torch.stack([_rolled(name, each, by * e) for e, each in enumerate(weight)])


def _rolled(name: str, weight: Tensor, places: int) -> Tensor:
    if name == "down_proj_bias":
        return weight
    if name == "down_proj":
        return weight.roll(places, 1)
    halves = weight.chunk(2) if name.startswith("gate_up_proj") else (weight,)
    return torch.cat([half.roll(places, 0) for half in halves])


def terms(observation: Observation, variant: PreTrainedModel) -> Observation:
    """Gradients of experts summed up to those of the FFN; what routers have is not the parent's.

    Raises ValueError where a mixture is not what its formula says.
    """
    insist_on_formula(mixtures_of(variant)[0])
    dense: Mapping[str, tuple[str, ...]] = variant._dense_weights
    renamed: dict[str, Tensor] = {}
    for name, tensor in observation.items():
        weight = next((each for each in dense if name.endswith(f".{each}")), None)
        if weight is not None:
            summed = rolled(weight.rpartition(".")[2], tensor, -1).sum(0)
            layer = name.removesuffix(weight)
            turned = (
                variant._dense_weights_transposed and summed.dim() == 2
            )  # a Conv1D's features of its input first
            parts = [part.t() if turned else part for part in summed.chunk(len(dense[weight]))]
            renamed |= {layer + each: part for each, part in zip(dense[weight], parts, strict=True)}
        elif not name.endswith(".router.weight"):
            renamed[name] = tensor
    return renamed


def insist_on_formula(mixture: Any) -> None:
    """Raise ValueError if `mixture`, with different experts, does not compute `formula`."""
    made = copy.deepcopy(mixture).eval()
    draw_weights(made)
    own = dict(made.named_parameters())
    router = own["router.weight"]
    draw = torch.Generator().manual_seed(1)
    x_TD, weights_TD = torch.randn(2, 11, router.shape[1], generator=draw, dtype=torch.float64).to(
        router
    )
    x_TD.requires_grad_()
    ours = made(x_TD[None])[0]
    (ours * weights_TD).sum().backward()
    wide = {name: each.detach().double().requires_grad_() for name, each in own.items()}
    wide_x = x_TD.detach().double().requires_grad_()
    theirs = formula(wide, wide_x, mixture.experts.config, made.experts.act_fn)
    (theirs * weights_TD.double()).sum().backward()
    pairs = {"output": (ours, theirs), "gradient of its input": (x_TD.grad, wide_x.grad)}
    pairs |= {f"gradient of {name}": (own[name].grad, wide[name].grad) for name in own}
    for name, (one, two) in pairs.items():
        if one is None or two is None or not _are_near(one, two.to(one.device), router.dtype):
            raise ValueError(
                f"the {name} of a mixture is not that of its experts, one after the other"
            )


def formula(
    weights: Mapping[str, Tensor], x_TD: Tensor, config: Any, act: Callable[[Tensor], Tensor]
) -> Tensor:
    """Every expert on every token, by gates that are zero for those not chosen."""
    logits_TE = x_TD @ weights["router.weight"].T
    chosen_TE = torch.zeros_like(logits_TE).scatter(
        1, logits_TE.topk(config.num_experts_per_tok).indices, 1
    )
    gates_TE = logits_TE.softmax(-1) * chosen_TE
    if config.norm_topk_prob:
        gates_TE = gates_TE / gates_TE.sum(-1, keepdim=True)
    total = torch.zeros_like(x_TD)
    for expert in range(config.num_experts):
        up, down = (f"experts.{name}" for name in ("gate_up_proj", "down_proj"))
        gated = up in weights
        inner = _linear(weights, up if gated else "experts.up_proj", expert, x_TD)
        if gated:
            gate, inner = inner.chunk(2, -1)
        inner = act(gate) * inner if gated else act(inner)
        total = total + gates_TE[:, expert, None] * _linear(weights, down, expert, inner)
    return total


def _linear(weights: Mapping[str, Tensor], name: str, expert: int, x: Tensor) -> Tensor:
    out = x @ weights[name][expert].T
    return out + weights[f"{name}_bias"][expert] if f"{name}_bias" in weights else out


def _are_near(one: Tensor, two: Tensor, dtype: torch.dtype) -> bool:
    difference, size = (one.double() - two).abs(), two.abs()
    if dtype in NARROW:
        allowed = NARROW_ROUNDINGS * torch.finfo(dtype).eps
        return bool(difference.square().mean().sqrt() <= allowed * size.square().mean().sqrt())
    return bool(difference.max() <= REORDERED.at(dtype) * size.max())


def effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Two grouped GEMMs for each mixture, and no more products for more experts."""
    ran = variant.runs_of("Mixture")
    # Each product of a forward pass has two in the backward pass.
    if not ran or variant.kernels["aten._grouped_mm"] != 3 * 2 * ran:
        yield f"{variant.kernels['aten._grouped_mm']} grouped GEMMs in {ran} mixtures"
    # An FFN has two at least, so that its place and the router's one take one more.
    more = sum(variant.kernels[name] - parent.kernels[name] for name in PRODUCTS)
    if more > 3 * ran:
        yield f"{more} products more than the dense model has: experts run one after the other"


def detached(route: Callable[..., Any], *args: Any) -> tuple[Tensor, ...]:
    logits, gates, choice = route(*args)
    return logits, gates.detach(), choice


def not_renormalised(route: Callable[..., Any], *args: Any) -> tuple[Tensor, ...]:
    logits, _, choice = route(*args)
    return logits, logits.softmax(-1).gather(-1, choice), choice


def swapped(
    run: Callable[..., Tensor], experts: Any, x: Tensor, choice: Tensor, gates: Tensor
) -> Tensor:
    return run(experts, x, (choice + 1) % experts.num_experts, gates)


@contextmanager
def drawn_anew(model: PreTrainedModel) -> Iterator[None]:
    for mixture in mixtures_of(model):
        draw_weights(mixture.experts, seed=1)
    yield


PART_CHECK = PartCheck(
    part="moe",
    says="a mixture of copies of the FFN computes what the dense model does, and its gradients sum "
    "up to the FFN's",
    routes=routes,
    effect=effect,
    effect_scenario=Scenario(train=True),
    build=build,
    wide_share=0.1,  # the router
    terms=terms,
    planted_errors=(
        *errors(
            "forward",
            ("router gradient detached", "gates are constants to the router", detached),
            ("gates not renormalised", "a token's gates do not sum to one", not_renormalised),
            within="MixtureRouter",
        ),
        *errors(
            "forward",
            ("experts swapped", "each expert runs with the weights of the one before", swapped),
            within="MixtureExperts",
        ),
        PlantedError(
            "missing expert weights",
            "experts were not loaded, and are as they were initialised",
            drawn_anew,
            fits=defines("Mixture"),
        ),
    ),
)
