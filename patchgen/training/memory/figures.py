"""Summarizes the trace of a step: how much of everything, the peak, and what made activations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from patchgen.training.memory.step import StepTrace
from patchgen.training.memory.tracker import PHASES, Allocation
from patchgen.training.parallel.engine import Engine

# The roles of storages, in the order of tables and charts.
ROLES = {
    "weights": "weights",
    "buffers": "buffers",
    "optimizer": "optimizer states",
    "gradients": "gradients",
    "inputs": "inputs",
    "casts": "weights in another dtype",
    "activations": "activations",
    "recomputed": "recomputed activations",
    "logits": "logits and their gradients",
    "temporary": "temporary",
}
# These exist without activations too, and are not counted as such.
NO_ACTIVATIONS = frozenset({"weights", "buffers", "inputs", "optimizer", "gradients"})


@dataclass(frozen=True, slots=True)
class Figures:
    """Bytes of one step, predicted or measured.

    `saved` is what is kept for the backward pass at the end of a forward pass, by autograd or by a
    checkpoint: each storage once, without weights, buffers and inputs.  `peaks` is the peak of each
    phase.
    """

    weights: int
    buffers: int
    optimizer: int
    gradients: int
    inputs: int
    saved: int
    peaks: tuple[tuple[str, int], ...]

    @property
    def peak(self) -> int:
        """Return the highest of all."""
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
        """Return the bytes of all roles."""
        return sum(size for _, size in self.roles)


def shares(engine: Engine) -> dict[str, int]:
    """Return among how many ranks an engine divides each role; others are whole on each.

    DDP divides nothing.  ZeRO divides states from stage 1 on, gradients from 2 and weights from 3
    (arXiv:1910.02054); the others divide all three.  Buffers to send, and weights that are gathered
    for a layer, are not counted.
    """
    ranks, stage = engine.launch.world, engine.zero_stage
    first = {"optimizer": 1, "gradients": 2, "weights": 3}
    if stage:
        return {role: ranks for role, since in first.items() if stage >= since}
    return dict.fromkeys(first, ranks) if engine.shards_weights else {}


def spread(trace: StepTrace) -> StepTrace:
    """Return the trace of one rank of the engine, from that of one process."""
    parts = shares(trace.setup.engine)
    allocations = tuple(
        replace(item, bytes=-(-item.bytes // parts.get(item.role, 1))) for item in trace.allocations
    )
    return replace(trace, allocations=allocations)


def find_role(allocation: Allocation, trace: StepTrace) -> str:
    """Return the role of a storage, a key of `ROLES`."""
    if allocation.role:
        return allocation.role
    inside_base = allocation.path == trace.base or allocation.path.startswith(f"{trace.base}.")
    of_vocabulary = trace.vocabulary and allocation.shape[-1:] == (trace.vocabulary,)
    if of_vocabulary and (not trace.base or not inside_base):
        return "logits"
    if allocation.phase == "backward" and allocation.path:  # a forward inside the backward pass
        return "recomputed"
    return "activations" if allocation.saved or _outlives(allocation, trace) else "temporary"


def _outlives(allocation: Allocation, trace: StepTrace) -> bool:
    """Return whether the result of a forward pass still exists when its backward pass begins.

    A checkpoint may keep it.
    """
    if allocation.phase != "forward":
        return False
    starts = (at for at, phase in trace.starts if phase == "backward" and at > allocation.born)
    return allocation.died is None or allocation.died >= next(starts)


def summarize(trace: StepTrace) -> Figures:
    """Return the predicted figures."""
    total: Counter[str] = Counter()
    for allocation in trace.allocations:
        total[allocation.role] += allocation.bytes if allocation.phase == PHASES[0] else 0
    at = next(moment for moment, name in trace.starts if name == "optimizer")
    alive = (e for e in trace.allocations if e.born < at and (e.died is None or e.died >= at))
    return Figures(
        total["weights"],
        total["buffers"],
        total["optimizer"],
        sum(allocation.bytes for allocation in alive if allocation.role == "gradients"),
        total["inputs"],
        sum(allocation.bytes for allocation in saved_allocations(trace.allocations, trace.starts)),
        tuple(_peaks(trace).items()),
    )


def saved_allocations(
    allocations: Iterable[Allocation], starts: Iterable[tuple[int, str]]
) -> Iterator[Allocation]:
    """Yield the storages that the first forward pass saves for the backward pass."""
    end = next(moment for moment, phase in starts if phase == "backward")
    for allocation in allocations:
        lives = allocation.born < end and (allocation.died is None or allocation.died >= end)
        of_forward = allocation.phase == "forward" or allocation.saved
        if lives and of_forward and allocation.role not in NO_ACTIVATIONS:
            yield allocation


def group_activations(trace: StepTrace) -> tuple[Kind, ...]:
    """Return what is saved by the place of its module, in the order of the places."""
    sizes: dict[str, int] = defaultdict(int)
    places: dict[str, set[str]] = defaultdict(set)
    for allocation in saved_allocations(trace.allocations, trace.starts):
        module = _place(allocation.path)
        path = ".".join("*" if part.isdigit() else part for part in module)
        sizes[path] += allocation.bytes
        places[path].add(".".join(module))
    return tuple(
        Kind(path, trace.classes.get(min(places[path]), ""), len(places[path]), size)
        for path, size in sizes.items()
    )


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
    phases = (phase for start, phase in reversed(trace.starts) if start <= best)
    return Peak(next(phases, PHASES[0]), last.maker, last.path, by_role)


def _peaks(trace: StepTrace) -> dict[str, int]:
    """Return the peak of each phase, which begins with what the phase before it leaves."""
    most: dict[str, int] = dict.fromkeys(PHASES[1:], 0)
    changes = iter(_changes(trace.allocations))
    now = 0
    starts = [*trace.starts, (trace.end, "")]
    change = next(changes, None)
    for (_, phase), (end, _) in zip(starts, starts[1:], strict=False):
        most[phase] = max(most[phase], now)
        while change is not None and change[0] < end:
            now += change[1]
            most[phase] = max(most[phase], now)
            change = next(changes, None)
    return most


def _changes(allocations: Iterable[Allocation]) -> list[tuple[int, int]]:
    """Return births and deaths in order, as (moment, bytes)."""
    changes = [(item.born, item.bytes) for item in allocations]
    changes += [(item.died, -item.bytes) for item in allocations if item.died is not None]
    return sorted(changes)
