"""What can be seen of a model in one step of training, and how far two models are apart in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from patchgen.lab.tiny import Batch

# A gradient far below the largest may be rounding alone: a bias on the keys has none, it shifts a row's every score.
GRADIENT_FLOOR = 1e-2


def observe(model: nn.Module, batch: Batch, *, weights: bool = False, **inputs: Tensor) -> dict[str, Tensor]:
    """Logits, loss, hidden states, attention weights if asked for, and the gradient of every parameter, by name.

    What a model gives per token is kept at real tokens.  A parameter without a gradient has no entry.  `inputs` are
    further arguments of the forward; the mode of the model (`train`, `eval`) is left as it is.
    """
    model.zero_grad(set_to_none=True)
    asked = {"output_attentions": True} if weights else {}
    out = model(**batch.inputs(), **inputs, output_hidden_states=True, use_cache=False, **asked)
    out.loss.backward()
    seen = {"logits": out.logits[batch.real], "loss": out.loss}
    seen |= {f"hidden_states.{i}": h[batch.real] for i, h in enumerate(out.hidden_states)}
    for kind in ("attentions", "cross_attentions") if weights else ():  # each (rows, heads, queries, keys)
        given = getattr(out, kind, None) or ()
        seen |= {f"{kind}.{i}": a.transpose(1, 2)[batch.real] for i, a in enumerate(given)}
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    seen |= {f"gradient of {name}": gradient for name, gradient in gradients.items()}
    return {name: tensor.detach().clone() for name, tensor in seen.items()}


@dataclass(frozen=True, slots=True)
class Difference:
    """How far one tensor is from its reference, relative to the reference's largest value.

    Gradients are relative to at least `GRADIENT_FLOOR` of the model's largest.  Infinite: not comparable at all.
    """

    name: str
    largest: float
    mean: float
    where: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}: max {self.largest:.2e} at {self.where}, mean {self.mean:.2e}"


def differences(reference: Mapping[str, Tensor], candidate: Mapping[str, Tensor]) -> tuple[Difference, ...]:
    """One for each name of either side, the largest first."""
    floor = GRADIENT_FLOOR * max((_top(t) for name, t in reference.items() if _is_gradient(name)), default=0.0)
    found = (
        _difference(name, reference.get(name), candidate.get(name), floor if _is_gradient(name) else 0.0)
        for name in {**reference, **candidate}
    )
    return tuple(sorted(found, key=lambda difference: -difference.largest))


def worst(found: Iterable[Difference]) -> float:
    """The largest relative difference; 0.0 means bit for bit equal."""
    return max((difference.largest for difference in found), default=math.inf)


def _is_gradient(name: str) -> bool:
    return name.startswith("gradient of ")


def _top(tensor: Tensor) -> float:
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def _difference(name: str, reference: Tensor | None, candidate: Tensor | None, floor: float) -> Difference:
    if reference is None or candidate is None or reference.shape != candidate.shape:
        return Difference(name, math.inf, math.inf, ())
    if torch.equal(reference, candidate):
        return Difference(name, 0.0, 0.0, ())
    apart = (reference.double() - candidate.double()).abs() / max(_top(reference), floor)
    apart = torch.where(apart.isfinite(), apart, math.inf)
    where = torch.unravel_index(apart.argmax(), apart.shape)
    return Difference(name, float(apart.max()), float(apart.mean()), tuple(int(i) for i in where))
