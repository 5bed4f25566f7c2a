"""What the books say: how much there is of everything, when it is most, and where activations come from.

In: `Books`.  Out: figures in bytes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

from patchgen.training.memory.layout import Layout
from patchgen.training.memory.ledger import PHASES, Allocation
from patchgen.training.memory.predict import StepTrace

# What a storage can be, in the order of tables and pictures.
ROLES = {
    "weights": "weights",
    "buffers": "buffers",
    "optimizer": "optimizer states",
    "gradients": "gradients",
    "inputs": "inputs",
    "casts": "weights in another type",
    "gathered": "weights gathered from other ranks",
    "exchange": "sent to or got from other ranks",
    "activations": "activations",
    "recomputed": "activations computed again",
    "logits": "logits and their gradients",
    "temporary": "temporary",
}
# What is there anyway, and a count of activations leaves out.
NO_ACTIVATIONS = frozenset({"weights", "buffers", "inputs", "optimizer", "gradients", "gathered"})


@dataclass(frozen=True, slots=True)
class Figures:
    """Bytes of one step, by prediction or by measurement.

    `saved` is what is kept for the backward pass when a forward pass has ended, by autograd or by a checkpoint, each
    storage once, without weights, buffers and inputs.  `exchange` is what stays between steps for gradients on their
    way to other ranks.  `peaks` has the most that there is at a time, by phase.
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
    """Activations of modules that have the same place in each layer."""

    path: str  # "model.layers.*.mlp"; "" for the model's own forward, where the loss is
    class_name: str
    layers: int  # how many places the path stands for
    bytes: int


@dataclass(frozen=True, slots=True)
class Peak:
    """The moment at which most is held, and what that is."""

    phase: str
    maker: str  # the operation whose result came last
    path: str  # of the module that ran it
    roles: tuple[tuple[str, int], ...]

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.roles)


def find_role(allocation: Allocation, trace: StepTrace) -> str:
    """What a storage is; a key of `ROLES`."""
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
    ):  # a module's forward in the backward pass
        return "recomputed"
    if allocation.saved:
        return "activations"
    return "activations" if _outlives(allocation, trace) else "temporary"


def _outlives(allocation: Allocation, trace: StepTrace) -> bool:
    """Whether what a forward pass made is there when its backward pass begins: a checkpoint may keep it."""
    if allocation.phase != "forward":
        return False
    end = next(
        moment for moment, phase in trace.starts if phase == "backward" and moment > allocation.born
    )
    return allocation.died is None or allocation.died >= end


def summarize(trace: StepTrace) -> Figures:
    """What is predicted."""
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
    """What a prediction is held to, of the figures of several ranks.

    Those of the first rank, which is the one that is predicted.  Where tokens go to experts on other ranks, the mean:
    what one is sent more, another is sent less.
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
    """The storages that are kept for the backward pass when the first forward pass has ended."""
    end = next(moment for moment, phase in trace.starts if phase == "backward")
    for allocation in trace.allocations:
        lives = allocation.born < end and (allocation.died is None or allocation.died >= end)
        made = allocation.phase == "forward" or allocation.saved
        if lives and made and is_activation(allocation):
            yield allocation


def is_activation(allocation: Allocation) -> bool:
    """Whether a storage that is there when the forward pass has ended is kept for the backward pass."""
    return allocation.role not in NO_ACTIVATIONS and (allocation.saved or not allocation.exchanged)


def group_activations(trace: StepTrace) -> tuple[Kind, ...]:
    """What is kept by the place of its maker, in the order of the places."""
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
    """Of "model.layers.3.mlp.act_fn" the layer and what is directly in it; without layers, the first two names."""
    parts = path.split(".") if path else []
    first = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    if first is None:
        return parts[:2]
    while len(parts) > first + 2 and parts[first + 2].isdigit():  # stages of blocks
        first += 2
    return parts[: first + 2]


def find_peak(trace: StepTrace) -> Peak:
    """The highest moment of all."""
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
    told = tuple((role, roles[role]) for role in ROLES if roles[role])
    return Peak(_phase_at(trace, best), last.maker, last.path, told)


def _peaks(trace: StepTrace) -> dict[str, int]:
    """The most that is held in each phase, which begins with what the one before leaves."""
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
    """The bytes of `role` when `phase` begins."""
    at = next(moment for moment, name in trace.starts if name == phase)
    alive = (e for e in trace.allocations if e.born < at and (e.died is None or e.died >= at))
    return sum(allocation.bytes for allocation in alive if allocation.role == role)


def _phase_at(trace: StepTrace, moment: int) -> str:
    return next((phase for start, phase in reversed(trace.starts) if start <= moment), PHASES[0])


def _changes(allocations: Iterable[Allocation]) -> list[tuple[int, int]]:
    """Births and deaths in order, as (moment, bytes)."""
    found = []
    for allocation in allocations:
        found.append((allocation.born, allocation.bytes))
        if allocation.died is not None:
            found.append((allocation.died, -allocation.bytes))
    return sorted(found)
