"""grouped: one product runs all experts, and each token gets what it got from the parent's loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from patchgen.lab.claim import Claim, Plant, Route, Scene, Specimen, around, defines
from patchgen.lab.evidence import Evidence
from patchgen.lab.tolerance import REFORMULATED

PRODUCTS = ("aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm")


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """The parent's own experts, one after the other or all on all tokens."""
    # More than two are summed in another order, and rounded once.
    return (Route("its experts", REFORMULATED),)


def effect(parent: Evidence, variant: Evidence, specimen: Specimen) -> Iterator[str]:
    """Grouped products ran, and no more products beside them than the parent has."""
    grouped = variant.kernels["aten._grouped_mm"]
    if not grouped or grouped % 3:  # one forward, two backward
        yield f"{grouped} grouped products"
    ours, theirs = (sum(each.kernels[name] for name in PRODUCTS) for each in (variant, parent))
    if ours > theirs:
        yield f"{ours} other products where the parent has {theirs}"


def swapped(product: Callable[..., Tensor], x_PD: Tensor, weight_EDF: Tensor, ends_E: Tensor) -> Tensor:
    return product(x_PD, weight_EDF.roll(1, 0), ends_E)


def late(product: Callable[..., Tensor], x_PD: Tensor, weight_EDF: Tensor, ends_E: Tensor) -> Tensor:
    """Each expert but the last takes two rows of the next one's."""
    return product(x_PD, weight_EDF, torch.cat([(ends_E[:-1] + 2).clamp(max=len(x_PD)), ends_E[-1:]]))


def not_brought_back(back: Callable[..., Tensor], pairs: Any, out_PD: Tensor) -> Tensor:
    return out_PD.view(-1, pairs.k, out_PD.shape[-1])


def lost_gradient(product: Callable[..., Tensor], x_PD: Tensor, weight_EDF: Tensor, ends_E: Tensor) -> Tensor:
    """The first expert's weights get no gradient."""
    return product(x_PD, torch.cat([weight_EDF[:1].detach(), weight_EDF[1:]]), ends_E)


def learns_by_autograd(specimen: Specimen) -> bool:
    """Whether torch makes the gradients of the products; else the part that makes them has its own planted error."""
    return defines("grouped_product")(specimen) and not defines("grouped_outer")(specimen)


CLAIM = Claim(
    part="grouped",
    says="one product runs all experts, and computes what they do one after the other",
    routes=routes,
    effect=effect,
    shown_in=Scene(train=True),
    plants=(
        Plant(
            "experts swapped in products",
            "each expert runs with the weights of the one before",
            around("grouped_product", swapped),
            fits=defines("grouped_product"),
        ),
        Plant(
            "ends off",
            "two tokens of each expert run with the weights of another",
            around("grouped_product", late),
            fits=defines("grouped_product"),
        ),
        Plant(
            "not brought back",
            "tokens get what others were given",
            around("back", not_brought_back, within="Pairs"),
            fits=defines("Pairs"),
        ),
        Plant(
            "gradient of an expert lost",
            "the loss is right, the first expert does not learn",
            around("grouped_product", lost_gradient),
            fits=learns_by_autograd,
        ),
    ),
)
