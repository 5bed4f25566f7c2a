"""The reference loss and gradients: the stock model in float32, under eager attention."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from patchgen.training.bench.case import Case
from patchgen.training.bench.entry import Entry
from patchgen.training.bench.setup import CaseSetup, switch_checkpointing_on
from patchgen.training.bench.step import products
from patchgen.training.bench.texts import NO_LABEL

TOKENS = 4096  # of one backward pass: float32 scores and logits must fit beside the weights
NO_GRADIENT = 1e-7  # a smaller norm is a rounding error, such as that of a key's bias


@dataclass(frozen=True, slots=True)
class Bounds:
    """The largest relative differences of the loss, the gradient norm and each gradient entry.

    Entries are compared where the reference has them, and only in float32.
    """

    loss: float
    norm: float
    entry: float = math.inf


WIDE, NARROW = Bounds(1e-5, 1e-4, 1e-4), Bounds(1e-2, 3e-2)


@dataclass(frozen=True, slots=True)
class Reference:
    """The mean loss, the norm of all gradients and of each, and a tiny model's gradients."""

    loss: float
    norm: float
    norms: Mapping[str, float]
    gradients: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Deviation:
    """Relative differences from a reference.

    `worst` is that of the worst parameter: by its entries where they are known, else by its norm.
    """

    loss: float
    norm: float
    worst: float
    where: str
    by_entries: bool

    def within(self, bounds: Bounds) -> bool:
        """Return whether all differences are within the bounds; NaN is not."""
        entries = not self.by_entries or self.worst <= bounds.entry
        return self.loss <= bounds.loss and self.norm <= bounds.norm and entries


def compute_reference(setup: CaseSetup, rows: int | None = None) -> Reference:
    """Compute the reference of the case's batch, or of its first rows, at the initial weights."""
    batch = setup.batch(Entry("reference", rows=rows))
    setup.reset(torch.float32)
    model = setup.reference()
    if model.supports_gradient_checkpointing and not setup.scale.tiny:
        switch_checkpointing_on(model, "full")  # the scores of all layers would not fit
    several = min(len(batch.inputs["input_ids"]), max(1, math.ceil(batch.places / TOKENS)))
    total = 0.0
    with products("fp32"):
        for part in batch.parts(several):
            share = _labelled(setup.case, part) / batch.labelled
            loss = model(**part).loss * share
            loss.backward()
            total += loss.item()
    norms = gradient_norms(setup)
    kept = _gradients(setup) if setup.scale.tiny else {}
    setup.reset(torch.float32)
    return Reference(total, total_norm(norms), norms, kept)


def _labelled(case: Case, part: Mapping[str, Tensor]) -> int:
    labels = part["labels"]
    return len(labels) if case.task == "classify" else int((labels != NO_LABEL).sum())


def gradient_norms(setup: CaseSetup, scale: float = 1.0) -> dict[str, float]:
    """Return the norm of each parameter's gradient, divided by `scale`."""
    found = {name: p.grad for name, p in setup.distinct.items() if p.grad is not None}
    norms = torch.stack(
        [torch.linalg.vector_norm(grad, dtype=torch.float32) for grad in found.values()]
    )
    return {name: value / scale for name, value in zip(found, norms.tolist(), strict=True)}


def total_norm(norms: Mapping[str, float]) -> float:
    """Return the norm of all gradients together."""
    return math.sqrt(sum(norm * norm for norm in norms.values()))


def _gradients(setup: CaseSetup) -> dict[str, Tensor]:
    return {
        name: p.grad.detach().clone() for name, p in setup.distinct.items() if p.grad is not None
    }


def compare_with_reference(
    reference: Reference, loss: float, norms: Mapping[str, float], setup: CaseSetup
) -> Deviation:
    """Return how far an entry's loss and gradients are from the reference."""
    deviation = {
        name: _relative_difference(norms.get(name, 0.0), norm)
        for name, norm in reference.norms.items()
        if norm > NO_GRADIENT
    }
    for name, gradient in reference.gradients.items():
        if name in deviation:
            deviation[name] = _largest_deviation(setup.distinct[name].grad, gradient)
    where = max(
        deviation, key=lambda name: math.inf if math.isnan(deviation[name]) else deviation[name]
    )
    norm = _relative_difference(total_norm(norms), reference.norm)
    return Deviation(
        _relative_difference(loss, reference.loss),
        norm,
        deviation[where],
        where,
        bool(reference.gradients),
    )


def _relative_difference(value: float, reference: float) -> float:
    return abs(value - reference) / max(abs(reference), 1e-12)


def _largest_deviation(gradient: Tensor | None, reference: Tensor) -> float:
    if gradient is None:
        return math.inf
    return float(
        (gradient.float() - reference).abs().max() / reference.abs().max().clamp(min=1e-12)
    )
