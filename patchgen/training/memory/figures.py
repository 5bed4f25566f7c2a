"""Summarizes the trace of a step: how much of everything, the peak, and what made activations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

from patchgen.training.memory.layout import Layout
from patchgen.training.memory.ledger import PHASES, Allocation
from patchgen.training.memory.predict import StepTrace

# The roles of storages, in the order of tables and charts.
ROLES = {
    "weights": "weights",
    "buffers": "buffers",
    "optimizer": "optimizer states",
    "gradients": "gradients",
    "inputs": "inputs",
    "casts": "weights in another dtype",
    "gathered": "weights gathered from other ranks",
    "exchange": "buffers to send and receive",
    "activations": "activations",
    "recomputed": "recomputed activations",
    "logits": "logits and their gradients",
    "temporary": "temporary",
}
# These exist without activations too, and are not counted as such.
NO_ACTIVATIONS = frozenset({"weights", "buffers", "inputs", "optimizer", "gradients", "gathered"})


@dataclass(frozen=True, slots=True)
class Figures:
    """Bytes of one step, predicted or measured.

    `saved` is what is kept for the backward pass at the end of a forward pass, by autograd or by a
    checkpoint: each storage once, without weights, buffers and inputs.  `exchange` is the buffers
    that stay between steps to send gradients.  `peaks` is the peak of each phase.
    """

    weights: int
    buffers: int
    optimizer: int
    gradients: int
    inputs: int
    saved: int
    peaks: tuple[tuple[str, int], ...]
    exchange: int = 0

    @property
    def peak(self) -> int:
        return max(most for _, most in self.peaks)


@dataclass(frozen=True, slots=True)
class Kind:
    """The activations of modules with the same place in each layer."""

    path: str  # "model.layers.*.mlp"; "" for the model's own forward, where the loss is
    class_name: str
    layers: int  # how many places the path stands for
    bytes: int


@dataclass(frozen=True, slots=True)
class Peak:
    """The moment of the highest memory, and what is held then."""

    phase: str
    maker: str  # the operation whose result came last
    path: str  # of the module that ran it
    roles: tuple[tuple[str, int], ...]

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.roles)


def find_role(allocation: Allocation, trace: StepTrace) -> str:
    """Return the role of a storage, a key of `ROLES`."""
    if allocation.role:
        return allocation.role
    if allocation.exchanged and not allocation.saved:
        return "exchange"
    inside_base = allocation.path == trace.base or allocation.path.startswith(f"{trace.base}.")
    if (
        trace.vocabulary
        and allocation.shape[-1:] == (trace.vocabulary,)
        and (not trace.base or not inside_base)
    ):
        return "logits"
    if (
        allocation.phase == "backward" and allocation.path
    ):  # a forward pass inside the backward pass
        return "recomputed"
    if allocation.saved:
        return "activations"
    return "activations" if _outlives(allocation, trace) else "temporary"


def _outlives(allocation: Allocation, trace: StepTrace) -> bool:
    """Return whether the result of a forward pass still exists when its backward pass begins.

    A checkpoint may keep it.
    """
    if allocation.phase != "forward":
        return False
    end = next(
        moment for moment, phase in trace.starts if phase == "backward" and moment > allocation.born
    )
    return allocation.died is None or allocation.died >= end


def summarize(trace: StepTrace) -> Figures:
    """Return the predicted figures."""
    total: Counter[str] = Counter()
    for allocation in trace.allocations:
        if allocation.role in ("weights", "buffers", "optimizer", "inputs"):
            total[allocation.role] += allocation.bytes
    return Figures(
        total["weights"],
        total["buffers"],
        total["optimizer"],
        _alive(trace, "optimizer", "gradients"),
        total["inputs"],
        sum(allocation.bytes for allocation in saved_allocations(trace)),
        tuple(_peaks(trace).items()),
        sum(
            allocation.bytes
            for allocation in trace.allocations
            if allocation.phase == PHASES[0] and find_role(allocation, trace) == "exchange"
        ),
    )


def reference_figures(found: Sequence[Figures], layout: Layout) -> Figures:
    """Return the measured figures that a prediction is compared with.

    They are those of the first rank, which is predicted.  Where ranks send tokens to experts on
    other ranks, they are the mean: what one rank receives more, another receives less.
    """
    if not layout.sends_tokens:
        return found[0]
    many = len(found)
    names = [each.name for each in fields(Figures) if each.name != "peaks"]
    peaks = [
        (phase, sum(dict(each.peaks)[phase] for each in found) // many)
        for phase, _ in found[0].peaks
    ]
    return Figures(
        **{name: sum(getattr(each, name) for each in found) // many for name in names},
        peaks=tuple(peaks),
    )


def saved_allocations(trace: StepTrace) -> Iterator[Allocation]:
    """Yield the storages that the first forward pass saves for the backward pass."""
    end = next(moment for moment, phase in trace.starts if phase == "backward")
    for allocation in trace.allocations:
        lives = allocation.born < end and (allocation.died is None or allocation.died >= end)
        made = allocation.phase == "forward" or allocation.saved
        if lives and made and is_activation(allocation):
            yield allocation


def is_activation(allocation: Allocation) -> bool:
    """Return whether a storage that exists after the forward pass is kept for the backward pass."""
    return allocation.role not in NO_ACTIVATIONS and (allocation.saved or not allocation.exchanged)


def group_activations(trace: StepTrace) -> tuple[Kind, ...]:
    """Return what is saved by the place of its module, in the order of the places."""
    sizes: dict[str, int] = defaultdict(int)
    places: dict[str, set[str]] = defaultdict(set)
    for allocation in saved_allocations(trace):
        place = _place(allocation.path)
        path = ".".join("*" if part.isdigit() else part for part in place)
        sizes[path] += allocation.bytes
        places[path].add(".".join(place))
    found = []
    for path, size in sizes.items():
        first = min(places[path])
        found.append(Kind(path, trace.classes.get(first, ""), len(places[path]), size))
    return tuple(found)


def _place(path: str) -> list[str]:
    """Return the layer of "model.layers.3.mlp.act_fn" and what is directly in it.

    Without layers, return the first two names.
    """
    parts = path.split(".") if path else []
    first = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    if first is None:
        return parts[:2]
    while len(parts) > first + 2 and parts[first + 2].isdigit():  # stages of blocks
        first += 2
    return parts[: first + 2]


def find_peak(trace: StepTrace) -> Peak:
    """Return the highest moment of all."""
    best, most, now = 0, -1, 0
    for moment, change in _changes(trace.allocations):
        now += change
        if now > most:
            best, most = moment, now
    roles: Counter[str] = Counter()
    last = trace.allocations[0]
    for allocation in trace.allocations:
        if allocation.born <= best and (allocation.died is None or allocation.died > best):
            roles[find_role(allocation, trace)] += allocation.bytes
        if allocation.born <= best:
            last = allocation
    by_role = tuple((role, roles[role]) for role in ROLES if roles[role])
    return Peak(_phase_at(trace, best), last.maker, last.path, by_role)


def _peaks(trace: StepTrace) -> dict[str, int]:
    """Return the peak of each phase, which begins with what the phase before it leaves."""
    most: dict[str, int] = dict.fromkeys(PHASES[1:], 0)
    changes, now, starts = iter(_changes(trace.allocations)), 0, [*trace.starts, (trace.end, "")]
    change = next(changes, None)
    for (_, phase), (end, _) in zip(starts, starts[1:], strict=False):
        most[phase] = max(most[phase], now)
        while change is not None and change[0] < end:
            now += change[1]
            most[phase] = max(most[phase], now)
            change = next(changes, None)
    return most


def _alive(trace: StepTrace, phase: str, role: str) -> int:
    """Return the bytes of `role` when `phase` begins."""
    at = next(moment for moment, name in trace.starts if name == phase)
    alive = (e for e in trace.allocations if e.born < at and (e.died is None or e.died >= at))
    return sum(allocation.bytes for allocation in alive if allocation.role == role)


def _phase_at(trace: StepTrace, moment: int) -> str:
    return next((phase for start, phase in reversed(trace.starts) if start <= moment), PHASES[0])


def _changes(allocations: Iterable[Allocation]) -> list[tuple[int, int]]:
    """Return births and deaths in order, as (moment, bytes)."""
    found = []
    for allocation in allocations:
        found.append((allocation.born, allocation.bytes))
        if allocation.died is not None:
            found.append((allocation.died, -allocation.bytes))
    return sorted(found)
