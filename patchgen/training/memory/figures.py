"""Summarizes the trace of a step: how much of everything, the peak, and what made activations."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
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
    peaks: dict[str, int]

    @property
    def peak(self) -> int:
        """Return the highest of all."""
        return max(self.peaks.values())


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
    roles: dict[str, int]

    @property
    def bytes(self) -> int:
        """Return the bytes of all roles."""
        return sum(self.roles.values())


def shares(engine: Engine) -> dict[str, int]:
    """Return among how many ranks an engine divides each role; others are whole on each.

    DDP divides nothing.  ZeRO divides states from stage 1 on, gradients from 2 and weights from 3
    (arXiv:1910.02054); the others divide all three.  Buffers to send, and weights that are gathered
    for a layer, are not counted.
    """
    divided: list[str] = []
    if engine.zero_stage:
        divided = ["optimizer", "gradients", "weights"][: engine.zero_stage]
    elif engine.shards_weights:
        divided = ["optimizer", "gradients", "weights"]
    return dict.fromkeys(divided, engine.launch.world)


def spread(trace: StepTrace) -> StepTrace:
    """Return the trace of one rank of the engine, from that of one process."""
    ranks_of = shares(trace.setup.engine)
    allocations = []
    for whole in trace.allocations:
        share = math.ceil(whole.bytes / ranks_of.get(whole.role, 1))
        allocations.append(replace(whole, bytes=share))
    return replace(trace, allocations=tuple(allocations))


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
    optimizer_begins = next(moment for moment, phase in trace.starts if phase == "optimizer")
    before: Counter[str] = Counter()
    gradients = 0
    for allocation in trace.allocations:
        if allocation.phase == PHASES[0]:
            before[allocation.role] += allocation.bytes
        if allocation.role == "gradients" and allocation.lives_until(optimizer_begins):
            gradients += allocation.bytes
    saved = saved_allocations(trace.allocations, trace.starts)
    return Figures(
        before["weights"],
        before["buffers"],
        before["optimizer"],
        gradients,
        before["inputs"],
        sum(allocation.bytes for allocation in saved),
        _peaks(trace),
    )


def saved_allocations(
    allocations: Iterable[Allocation], starts: Iterable[tuple[int, str]]
) -> Iterator[Allocation]:
    """Yield the storages that the first forward pass saves for the backward pass."""
    backward_begins = next(moment for moment, phase in starts if phase == "backward")
    for allocation in allocations:
        of_forward = allocation.phase == "forward" or allocation.saved
        is_activation = of_forward and allocation.role not in NO_ACTIVATIONS
        if is_activation and allocation.lives_until(backward_begins):
            yield allocation


def group_activations(trace: StepTrace) -> tuple[Kind, ...]:
    """Return what is saved by the place of its module, in the order of the places."""
    sizes: Counter[str] = Counter()
    places: dict[str, set[str]] = defaultdict(set)
    for allocation in saved_allocations(trace.allocations, trace.starts):
        place = _place(allocation.path)
        names = ["*" if name.isdigit() else name for name in place]
        path = ".".join(names)
        sizes[path] += allocation.bytes
        places[path].add(".".join(place))
    kinds = []
    for path, size in sizes.items():
        of_kind = places[path]
        class_name = trace.classes.get(min(of_kind), "")
        kinds.append(Kind(path, class_name, len(of_kind), size))
    return tuple(kinds)


def _place(path: str) -> list[str]:
    """Return the layer of "model.layers.3.mlp.act_fn" and what is directly in it.

    Without layers, return the first two names.
    """
    names = path.split(".")
    numbers = [at for at, name in enumerate(names) if name.isdigit()]
    if not numbers:
        return names[:2]
    last = numbers[0]
    while last + 2 in numbers:  # stages of blocks
        last += 2
    return names[: last + 2]


def find_peak(trace: StepTrace) -> Peak:
    """Return the highest moment of all."""
    peak_moment = 0
    most = -1
    held = 0
    for moment, change in _changes(trace.allocations):
        held += change
        if held > most:
            most = held
            peak_moment = moment
    sizes: Counter[str] = Counter()
    last = trace.allocations[0]
    for allocation in trace.allocations:
        if allocation.lives_until(peak_moment + 1):
            sizes[find_role(allocation, trace)] += allocation.bytes
        if allocation.born <= peak_moment:
            last = allocation
    by_role = {role: sizes[role] for role in ROLES if sizes[role]}
    phase = PHASES[0]
    for start, name in trace.starts:
        if start <= peak_moment:
            phase = name
    return Peak(phase, last.maker, last.path, by_role)


def _peaks(trace: StepTrace) -> dict[str, int]:
    """Return the peak of each phase, which begins with what the phase before it leaves."""
    most = dict.fromkeys(PHASES[1:], 0)
    held = 0
    changes = deque(_changes(trace.allocations))
    ends = [start for start, _ in trace.starts[1:]]
    ends.append(trace.end)
    for (_, phase), end in zip(trace.starts, ends, strict=True):
        most[phase] = max(most[phase], held)
        while changes and changes[0][0] < end:
            _, change = changes.popleft()
            held += change
            most[phase] = max(most[phase], held)
    return most


def _changes(allocations: Iterable[Allocation]) -> list[tuple[int, int]]:
    """Return births and deaths in order, as (moment, bytes)."""
    changes = [(item.born, item.bytes) for item in allocations]
    changes += [(item.died, -item.bytes) for item in allocations if item.died is not None]
    return sorted(changes)
