"""How far two observations of a model are apart, and how far they may be, and why."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from patchgen.verify.inputs.arguments import Batch

# Roundings that add up from one score to the worst entry of a tiny model's worst gradient, relative
# to the largest entry (see `Difference`).  SDPA against eager, over four models, three paddings and
# two dtypes, needs 52 at most.  The smallest planted error of tests/parity has 900,000 in float32.
ROUNDINGS = 256

# A planted error of the same kind must be larger than the bound by this, or a pass says too little.
MARGIN = 10


@dataclass(frozen=True, slots=True, order=True)
class Bound:
    """How far a part may be from its parent: `roundings` in a wide dtype, `noises` in a narrow one.

    In a wide dtype the largest entry of a difference counts.  In a narrow dtype it is the root mean
    square of each tensor, in units of that tensor's noise in the parent (`measure_in_noise`).
    """

    roundings: float
    noises: float
    name: str
    computes_in: torch.dtype = torch.float64  # the widest dtype in which the part computes

    def at(self, *dtypes: torch.dtype) -> float:
        """The bound if the two sides compute in `dtypes`, as a relative difference or in noises."""
        coarsest = max((*dtypes, self.computes_in), key=lambda dtype: torch.finfo(dtype).eps)
        return self.noises if coarsest in NARROW else self.roundings * torch.finfo(coarsest).eps


NARROW = frozenset({torch.bfloat16, torch.float16})

# Both paths run the same operations in the same order: nothing may differ, in any dtype.
EQUAL = Bound(0, 0, "bit-equal")
# The same formula with sums in another order.  In a narrow dtype two such paths are each one noise
# from the truth and 1.4 from each other.  SDPA against eager, in four models and three paddings,
# needs 1.6 at most.
REORDERED = Bound(ROUNDINGS, 2, "reordered")
# Another formula for the same function, such as a mean over experts.
REFORMULATED = Bound(4 * ROUNDINGS, 3, "reformulated")
# Kernels that compute in float32, also in a float64 model.
IN_FLOAT32 = Bound(4 * ROUNDINGS, 3, "reformulated in float32", torch.float32)


def loosest(bounds: Iterable[Bound]) -> Bound:
    """The bound of several parts together."""
    return max(bounds)


BIT_EQUAL = 0.0


def rounding(*dtypes: torch.dtype) -> float:
    """The bound for two routes that sum in another order, for the coarsest of `dtypes`.

    Name the dtype of the softmax as well as the model's.  Llama's eager attention rounds its
    weights to float32 even in a float64 model, and is then no float64 reference.
    """
    return ROUNDINGS * max(torch.finfo(dtype).eps for dtype in dtypes)


# A gradient far below the largest may be only rounding.  A bias on the keys has no gradient, for
# example, because it shifts all scores of a row alike.
GRADIENT_FLOOR = 1e-2
# Below this part of the largest it is rounding alone, in float32 as well.
VANISHING = 1e-5


def observe(
    model: nn.Module, batch: Batch, *, weights: bool = False, **inputs: Tensor
) -> dict[str, Tensor]:
    """Logits, loss, hidden states and the gradient of every parameter, by name.

    `weights` adds attention weights.  Outputs per token are kept at real tokens only.  A parameter
    without a gradient has no entry.  `inputs` are further arguments of the forward.  The mode of
    the model (`train`, `eval`) does not change.
    """
    model.zero_grad(set_to_none=True)
    asked = {"output_attentions": True} if weights else {}
    out = model(**batch.inputs(), **inputs, output_hidden_states=True, use_cache=False, **asked)
    out.loss.backward()
    observed = {"logits": out.logits[batch.real], "loss": out.loss}
    observed |= {f"hidden_states.{i}": h[batch.real] for i, h in enumerate(out.hidden_states)}
    for kind in (
        ("attentions", "cross_attentions") if weights else ()
    ):  # each (rows, heads, queries, keys)
        given = getattr(out, kind, None) or ()
        observed |= {f"{kind}.{i}": a.transpose(1, 2)[batch.real] for i, a in enumerate(given)}
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    observed |= {f"gradient of {name}": gradient for name, gradient in gradients.items()}
    return {name: tensor.detach().clone() for name, tensor in observed.items()}


@dataclass(frozen=True, slots=True)
class Difference:
    """How far one tensor is from its reference, relative to the reference's largest entry.

    A gradient is relative to at least `GRADIENT_FLOOR` of the model's largest gradient.  Infinite:
    the two cannot be compared.
    """

    name: str
    largest: float
    mean: float
    where: tuple[int, ...]
    rms: float = 0.0  # root mean square of the difference, relative to that of the reference
    size: float = 0.0  # what `rms` is relative to
    tiny: bool = False  # a gradient so small that it is measured against the model's largest
    vanishes: bool = False  # a gradient that is zero but for rounding
    missing: bool = False  # on one side, or of another shape there

    def __str__(self) -> str:
        return f"{self.name}: max {self.largest:.2e} at {self.where}, mean {self.mean:.2e}"


def differences(
    reference: Mapping[str, Tensor], candidate: Mapping[str, Tensor]
) -> tuple[Difference, ...]:
    """One difference for each name of either side, the largest first."""
    floor = GRADIENT_FLOOR * max(
        (_top(t) for name, t in reference.items() if _is_gradient(name)), default=0.0
    )
    rms_floor = GRADIENT_FLOOR * max(
        (_rms(t) for name, t in reference.items() if _is_gradient(name)), default=0.0
    )
    found = (
        _difference(
            name,
            reference.get(name),
            candidate.get(name),
            (floor, rms_floor) if _is_gradient(name) else (0, 0),
        )
        for name in {**reference, **candidate}
    )
    return tuple(sorted(found, key=lambda difference: -difference.largest))


def worst(found: Iterable[Difference]) -> float:
    """The largest relative difference; 0.0 means bit for bit equal."""
    return max((difference.largest for difference in found), default=math.inf)


def find_other_dtypes(
    reference: Mapping[str, Tensor], candidate: Mapping[str, Tensor]
) -> tuple[Difference, ...]:
    """An infinite difference for each tensor of another dtype, which values do not show."""
    names = [
        name
        for name in reference
        if name in candidate and reference[name].dtype != candidate[name].dtype
    ]
    described = [f"{name}, {candidate[name].dtype} for {reference[name].dtype}," for name in names]
    return tuple(Difference(name, math.inf, math.inf, (), math.inf) for name in described)


def measure_in_noise(
    found: Iterable[Difference], *noises: Iterable[Difference]
) -> tuple[Difference, ...]:
    """The same differences with `largest` in units of each tensor's noise, the largest first.

    Each of `noises` holds a reference's differences between two dtypes.  Of several, the larger
    counts: a computation that chooses, such as a router, may choose otherwise along one path only.

    The noise of one tensor may be small by chance, above all that of a loss, which is one number.
    So at least a quarter of the median counts, and the whole median for gradients near zero.  If a
    bias has no gradient, both sides are the rounding of a sum over its matrix's gradient: then that
    matrix's noise counts.
    """
    own: dict[str, float] = {}
    absolute: dict[str, float] = {}
    vanishing: set[str] = set()
    missing: set[str] = set()
    for difference in (each for noise in noises for each in noise):
        name = difference.name
        own[name] = max(own.get(name, 0.0), difference.rms)
        absolute[name] = max(absolute.get(name, 0.0), difference.rms * difference.size)
        vanishing |= {name} if difference.vanishes else set()
        missing |= {name} if difference.missing else set()
    measured = [size for size in own.values() if math.isfinite(size)]
    median = statistics.median(measured) if measured else 0.0
    measured_differences = []
    for difference in found:
        size = max(own.get(difference.name, 0.0), median if difference.tiny else median / 4)
        if difference.name in vanishing and difference.size:
            size = max(
                size,
                absolute.get(f"{difference.name.removesuffix('bias')}weight", 0.0)
                / difference.size,
            )
        # The reference has it in one of its dtypes only, such as the gradient of an expert.
        if difference.name in missing:
            continue
        # Without noise, or if the reference is not a number, nothing may differ.
        is_measure = size and math.isfinite(size)
        times = difference.rms / size if is_measure else (math.inf if difference.rms else 0.0)
        measured_differences.append(replace(difference, largest=times))
    return tuple(sorted(measured_differences, key=lambda difference: -difference.largest))


def nearer(found: Iterable[Difference], other: Iterable[Difference]) -> tuple[Difference, ...]:
    """Of each name the smaller of both, the largest first; what `other` lacks stays as found."""
    beside = {difference.name: difference for difference in other}
    nearest = (
        min(one, beside.get(one.name, one), key=lambda difference: difference.largest)
        for one in found
    )
    return tuple(sorted(nearest, key=lambda difference: -difference.largest))


def usual(own: Iterable[Difference], *others: Iterable[Difference]) -> tuple[Difference, ...]:
    """`own` noise, but for each tensor at least the median over all draws.

    One draw may be small by chance.  Among many tensors some are, and they would then be the
    furthest apart in units of their noise, with nothing wrong.
    """
    drawn: dict[str, list[float]] = {}
    for difference in (each for draw in others for each in draw):
        if math.isfinite(
            difference.rms
        ):  # else one dtype only has it in that draw, such as an expert's gradient
            drawn.setdefault(difference.name, []).append(difference.rms)
    return tuple(
        replace(one, rms=max(one.rms, statistics.median([one.rms, *drawn.get(one.name, [])])))
        for one in own
    )


def _is_gradient(name: str) -> bool:
    return name.startswith("gradient of ")


def _top(tensor: Tensor) -> float:
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def _rms(tensor: Tensor) -> float:
    return float(tensor.double().square().mean().sqrt()) if tensor.numel() else 0.0


def _difference(
    name: str, reference: Tensor | None, candidate: Tensor | None, floors: tuple[float, float]
) -> Difference:
    there = candidate if reference is None else reference
    if (reference is None or candidate is None) and _is_gradient(name):
        # A layer that nothing reached, such as an expert, has no gradient, or zeros in a stack.
        if there is not None and not there.any():
            return Difference(name, 0.0, 0.0, ())
    if reference is None or candidate is None or reference.shape != candidate.shape:
        return Difference(name, math.inf, math.inf, (), math.inf, missing=True)
    if torch.equal(reference, candidate):
        return Difference(name, 0.0, 0.0, ())
    difference = (reference.double() - candidate.double()).abs()
    relative = difference / max(_top(reference), floors[0])
    relative = torch.where(relative.isfinite(), relative, math.inf)
    where = torch.unravel_index(relative.argmax(), relative.shape)
    own, floor = _rms(reference), floors[1]
    rms = _rms(difference) / max(own, floor) if max(own, floor) else math.inf
    return Difference(
        name,
        float(relative.max()),
        float(relative.mean()),
        tuple(int(i) for i in where),
        rms if math.isfinite(rms) else math.inf,
        max(own, floor),
        own < floor,
        own < floor * VANISHING / GRADIENT_FLOOR,
    )
