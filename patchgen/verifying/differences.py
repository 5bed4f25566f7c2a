"""How far two observations of a model are apart, and how far they may be, and why."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

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

    def at(self, *dtypes: torch.dtype) -> float:
        """The bound if the two sides compute in `dtypes`, as a relative difference or in noises."""
        coarsest = max(dtypes, key=lambda dtype: torch.finfo(dtype).eps)
        return self.noises if coarsest in NARROW else self.roundings * torch.finfo(coarsest).eps


# What one side gives, by name.
Observed = Mapping[str, Tensor]
NARROW = frozenset({torch.bfloat16, torch.float16})

# Both paths run the same operations in the same order: nothing may differ, in any dtype.
EQUAL = Bound(0, 0, "bit-equal")
# The same formula with sums in another order.  In a narrow dtype two such paths are each one noise
# from the truth and 1.4 from each other; SDPA against eager needs 1.6 at most.
REORDERED = Bound(ROUNDINGS, 2, "reordered")
# Another formula for the same function, such as a mean over experts.
REFORMULATED = Bound(4 * ROUNDINGS, 3, "reformulated")


# A gradient far below the largest may be only rounding.  A bias on the keys has no gradient, for
# example, because it shifts all scores of a row alike.
GRADIENT_FLOOR = 1e-2
# Below this part of the largest it is rounding alone, in float32 as well.
VANISHING = 1e-5


@dataclass(frozen=True, slots=True)
class Difference:
    """How far one tensor is from its reference, relative to the reference's largest entry.

    A gradient is relative to at least `GRADIENT_FLOOR` of the model's largest gradient.  Infinite:
    the two cannot be compared.
    """

    name: str
    largest: float
    where: tuple[int, ...]
    rms: float = 0.0  # root mean square of the difference, relative to that of the reference
    size: float = 0.0  # what `rms` is relative to
    tiny: bool = False  # a gradient so small that it is measured against the model's largest
    vanishes: bool = False  # a gradient that is zero but for rounding
    missing: bool = False  # on one side, or of another shape there

    def __str__(self) -> str:
        return f"{self.name}: max {self.largest:.2e} at {self.where}"


# Of two sides, the largest first.
Gaps = tuple[Difference, ...]


def differences(reference: Observed, candidate: Observed) -> Gaps:
    """One difference for each name of either side, the largest first."""
    gradients = [tensor for name, tensor in reference.items() if _is_gradient(name)]
    top = max(map(_top, gradients), default=0.0)
    size = max(map(_rms, gradients), default=0.0)
    of_gradients = (GRADIENT_FLOOR * top, GRADIENT_FLOOR * size)
    gaps = []
    for name in {**reference, **candidate}:
        floors = of_gradients if _is_gradient(name) else (0.0, 0.0)
        expected = reference.get(name)
        measured = candidate.get(name)
        gaps.append(_difference(name, expected, measured, floors))
    return _sorted(gaps)


def _sorted(gaps: Iterable[Difference]) -> Gaps:
    return tuple(sorted(gaps, key=lambda difference: -difference.largest))


def worst(gaps: Iterable[Difference]) -> float:
    """The largest relative difference; 0.0 means bit for bit equal."""
    return max((difference.largest for difference in gaps), default=math.inf)


def find_other_dtypes(reference: Observed, candidate: Observed) -> Gaps:
    """An infinite difference for each tensor of another dtype, which values do not show."""
    dtypes = {name: candidate[name].dtype for name in reference if name in candidate}
    return tuple(
        Difference(f"{name}, {dtype} for {reference[name].dtype},", math.inf, (), math.inf)
        for name, dtype in dtypes.items()
        if dtype != reference[name].dtype
    )


def measure_in_noise(gaps: Iterable[Difference], *noises: Iterable[Difference]) -> Gaps:
    """The same differences with `largest` in units of each tensor's noise, the largest first.

    Each of `noises` holds a reference's differences between two dtypes.  Of several, the larger
    counts: a computation that chooses, such as a router, may choose otherwise along one path only.
    The noise of one tensor may be small by chance, above all that of a loss, which is one number:
    at least a quarter of the median counts, and the whole median for gradients near zero.  If a
    bias has no gradient, both sides are the rounding of a sum: its matrix's noise counts.
    """
    every = [*itertools.chain.from_iterable(noises)]
    own: dict[str, float] = {}
    absolute: dict[str, float] = {}
    for gap in every:
        own[gap.name] = max(own.get(gap.name, 0.0), gap.rms)
        absolute[gap.name] = max(absolute.get(gap.name, 0.0), gap.rms * gap.size)
    vanishing = {gap.name for gap in every if gap.vanishes}
    # The reference has it in one of its dtypes only, such as the gradient of an expert.
    missing = {gap.name for gap in every if gap.missing}
    finite = [size for size in own.values() if math.isfinite(size)]
    median = statistics.median(finite) if finite else 0.0
    measured = []
    for gap in gaps:
        if gap.name in missing:
            continue
        least = median if gap.tiny else median / 4
        size = max(own.get(gap.name, 0.0), least)
        if gap.name in vanishing and gap.size:
            weight = f"{gap.name.removesuffix('bias')}weight"
            noise = absolute.get(weight, 0.0) / gap.size
            size = max(size, noise)
        # Without noise, or if the reference is not a number, nothing may differ.
        times = math.inf if gap.rms else 0.0
        if size and math.isfinite(size):
            times = gap.rms / size
        measured.append(replace(gap, largest=times))
    return _sorted(measured)


def nearer(gaps: Iterable[Difference], other: Iterable[Difference]) -> Gaps:
    """Of each name the smaller of both, the largest first; what `other` lacks stays as found."""
    beside = {gap.name: gap for gap in other}
    return _sorted(min(gap, beside.get(gap.name, gap), key=lambda gap: gap.largest) for gap in gaps)


def usual(own: Iterable[Difference], *others: Iterable[Difference]) -> Gaps:
    """`own` noise, but at least the median over all draws: some tensors have little in one."""
    drawn: dict[str, list[float]] = {}
    for draw in others:
        for gap in draw:
            if math.isfinite(gap.rms):  # else one dtype only has it, as an expert's gradient
                drawn.setdefault(gap.name, []).append(gap.rms)
    raised = []
    for gap in own:
        sizes = [gap.rms, *drawn.get(gap.name, [])]
        median = statistics.median(sizes)
        raised.append(replace(gap, rms=max(gap.rms, median)))
    return tuple(raised)


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
            return Difference(name, 0.0, ())
    if reference is None or candidate is None or reference.shape != candidate.shape:
        return Difference(name, math.inf, (), math.inf, missing=True)
    if torch.equal(reference, candidate):
        return Difference(name, 0.0, ())
    difference = (reference.double() - candidate.double()).abs()
    relative = difference / max(_top(reference), floors[0])
    relative = torch.where(relative.isfinite(), relative, math.inf)
    where = torch.unravel_index(relative.argmax(), relative.shape)
    own = _rms(reference)
    floor = floors[1]
    rms = _rms(difference) / max(own, floor) if max(own, floor) else math.inf
    return Difference(
        name,
        float(relative.max()),
        tuple(int(i) for i in where),
        rms if math.isfinite(rms) else math.inf,
        max(own, floor),
        own < floor,
        own < floor * VANISHING / GRADIENT_FLOOR,
    )
