"""What the loss and the gradients are: the stock model's, in float32, under eager attention where that fits.

In: a stage.  Out: loss and gradient norms, and how far a contestant's are from them.
"""

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

TOKENS = 4096  # of one backward pass: scores and logits in float32 must fit beside the weights
NO_GRADIENT = (
    1e-7  # a norm below has no direction: the bias of a key has a gradient of zero but for rounding
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far the loss, the norm of all gradients, and any entry of them may be, relative to the reference's.

    Entries are looked at where the reference has them and their rounding is not that of a narrow dtype.
    """

    loss: float
    norm: float
    entry: float = math.inf


WIDE, NARROW = Bounds(1e-5, 1e-4, 1e-4), Bounds(1e-2, 3e-2)


@dataclass(frozen=True, slots=True)
class Reference:
    """The mean loss, the norm of all gradients, that of each, and the gradients of a tiny model themselves."""

    loss: float
    norm: float
    norms: Mapping[str, float]
    gradients: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Deviation:
    """Relative distances from a reference; `worst` is the furthest parameter's: by its entries, else by its norm."""

    loss: float
    norm: float
    worst: float
    where: str
    by_entries: bool

    def within(self, bounds: Bounds) -> bool:
        """Whether nothing is wrong.  What is no number is."""
        entries = not self.by_entries or self.worst <= bounds.entry
        return self.loss <= bounds.loss and self.norm <= bounds.norm and entries


def reference_of(setup: CaseSetup, rows: int | None = None) -> Reference:
    """Of the case's batch, or of its first rows, at the weights where all begin."""
    batch = setup.batch(Entry("reference", rows=rows))
    setup.reset(torch.float32)
    model = setup.reference()
    if model.supports_gradient_checkpointing and not setup.scale.tiny:
        switch_checkpointing_on(model, "full")  # scores of all layers would not fit
    several = min(len(batch.inputs["input_ids"]), max(1, math.ceil(batch.places / TOKENS)))
    total = 0.0
    with products("fp32"):
        for part in batch.parts(several):
            share = _labelled(setup.case, part) / batch.labelled
            loss = model(**part).loss * share
            loss.backward()
            total += loss.item()
    norms = norms_of(setup)
    kept = _gradients(setup) if setup.scale.tiny else {}
    setup.reset(torch.float32)
    return Reference(total, total_norm(norms), norms, kept)


def _labelled(case: Case, part: Mapping[str, Tensor]) -> int:
    labels = part["labels"]
    return len(labels) if case.task == "classify" else int((labels != NO_LABEL).sum())


def norms_of(setup: CaseSetup, scale: float = 1.0) -> dict[str, float]:
    """The norm of each parameter's gradient, divided by `scale`."""
    found = {name: p.grad for name, p in setup.distinct.items() if p.grad is not None}
    norms = torch.stack(
        [torch.linalg.vector_norm(grad, dtype=torch.float32) for grad in found.values()]
    )
    return {name: value / scale for name, value in zip(found, norms.tolist(), strict=True)}


def total_norm(norms: Mapping[str, float]) -> float:
    """Of all gradients together."""
    return math.sqrt(sum(norm * norm for norm in norms.values()))


def _gradients(setup: CaseSetup) -> dict[str, Tensor]:
    return {
        name: p.grad.detach().clone() for name, p in setup.distinct.items() if p.grad is not None
    }


def deviation(
    reference: Reference, loss: float, norms: Mapping[str, float], setup: CaseSetup
) -> Deviation:
    """Of a contestant whose gradients the weights hold, from the reference."""
    apart = {
        name: _apart(norms.get(name, 0.0), norm)
        for name, norm in reference.norms.items()
        if norm > NO_GRADIENT
    }
    for name, gradient in reference.gradients.items():
        if name in apart:
            apart[name] = _entries_apart(setup.distinct[name].grad, gradient)
    where = max(apart, key=lambda name: math.inf if math.isnan(apart[name]) else apart[name])
    norm = _apart(total_norm(norms), reference.norm)
    return Deviation(
        _apart(loss, reference.loss), norm, apart[where], where, bool(reference.gradients)
    )


def _apart(value: float, reference: float) -> float:
    return abs(value - reference) / max(abs(reference), 1e-12)


def _entries_apart(gradient: Tensor | None, reference: Tensor) -> float:
    if gradient is None:
        return math.inf
    return float(
        (gradient.float() - reference).abs().max() / reference.abs().max().clamp(min=1e-12)
    )
