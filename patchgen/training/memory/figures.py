"""What the books say: how much there is of everything, when it is most, and where activations come from.

In: `Books`.  Out: figures in bytes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

from patchgen.training.memory.layout import Layout
from patchgen.training.memory.ledger import PHASES, Entry
from patchgen.training.memory.predict import Books

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


def role_of(entry: Entry, books: Books) -> str:
    """What a storage is; a key of `ROLES`."""
    if entry.role:
        return entry.role
    if entry.exchanged and not entry.saved:
        return "exchange"
    inside_base = entry.path == books.base or entry.path.startswith(f"{books.base}.")
    if (
        books.vocabulary
        and entry.shape[-1:] == (books.vocabulary,)
        and (not books.base or not inside_base)
    ):
        return "logits"
    if entry.phase == "backward" and entry.path:  # a module's forward in the backward pass
        return "recomputed"
    if entry.saved:
        return "activations"
    return "activations" if _outlives(entry, books) else "temporary"


def _outlives(entry: Entry, books: Books) -> bool:
    """Whether what a forward pass made is there when its backward pass begins: a checkpoint may keep it."""
    if entry.phase != "forward":
        return False
    end = next(
        moment for moment, phase in books.starts if phase == "backward" and moment > entry.born
    )
    return entry.died is None or entry.died >= end


def figures(books: Books) -> Figures:
    """What is predicted."""
    total: Counter[str] = Counter()
    for entry in books.entries:
        if entry.role in ("weights", "buffers", "optimizer", "inputs"):
            total[entry.role] += entry.bytes
    return Figures(
        total["weights"],
        total["buffers"],
        total["optimizer"],
        _alive(books, "optimizer", "gradients"),
        total["inputs"],
        sum(entry.bytes for entry in kept(books)),
        tuple(_peaks(books).items()),
        sum(
            entry.bytes
            for entry in books.entries
            if entry.phase == PHASES[0] and role_of(entry, books) == "exchange"
        ),
    )


def standing(found: Sequence[Figures], layout: Layout) -> Figures:
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


def kept(books: Books) -> Iterator[Entry]:
    """The storages that are kept for the backward pass when the first forward pass has ended."""
    end = next(moment for moment, phase in books.starts if phase == "backward")
    for entry in books.entries:
        lives = entry.born < end and (entry.died is None or entry.died >= end)
        made = entry.phase == "forward" or entry.saved
        if lives and made and is_activation(entry):
            yield entry


def is_activation(entry: Entry) -> bool:
    """Whether a storage that is there when the forward pass has ended is kept for the backward pass."""
    return entry.role not in NO_ACTIVATIONS and (entry.saved or not entry.exchanged)


def kinds(books: Books) -> tuple[Kind, ...]:
    """What is kept by the place of its maker, in the order of the places."""
    sizes: dict[str, int] = defaultdict(int)
    places: dict[str, set[str]] = defaultdict(set)
    for entry in kept(books):
        place = _place(entry.path)
        path = ".".join("*" if part.isdigit() else part for part in place)
        sizes[path] += entry.bytes
        places[path].add(".".join(place))
    found = []
    for path, size in sizes.items():
        first = min(places[path])
        found.append(Kind(path, books.classes.get(first, ""), len(places[path]), size))
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


def peak(books: Books) -> Peak:
    """The highest moment of all."""
    best, most, now = 0, -1, 0
    for moment, change in _changes(books.entries):
        now += change
        if now > most:
            best, most = moment, now
    roles: Counter[str] = Counter()
    last = books.entries[0]
    for entry in books.entries:
        if entry.born <= best and (entry.died is None or entry.died > best):
            roles[role_of(entry, books)] += entry.bytes
        if entry.born <= best:
            last = entry
    told = tuple((role, roles[role]) for role in ROLES if roles[role])
    return Peak(_phase_at(books, best), last.maker, last.path, told)


def _peaks(books: Books) -> dict[str, int]:
    """The most that is held in each phase, which begins with what the one before leaves."""
    most: dict[str, int] = dict.fromkeys(PHASES[1:], 0)
    changes, now, starts = iter(_changes(books.entries)), 0, [*books.starts, (books.end, "")]
    change = next(changes, None)
    for (_, phase), (end, _) in zip(starts, starts[1:], strict=False):
        most[phase] = max(most[phase], now)
        while change is not None and change[0] < end:
            now += change[1]
            most[phase] = max(most[phase], now)
            change = next(changes, None)
    return most


def _alive(books: Books, phase: str, role: str) -> int:
    """The bytes of `role` when `phase` begins."""
    at = next(moment for moment, name in books.starts if name == phase)
    alive = (e for e in books.entries if e.born < at and (e.died is None or e.died >= at))
    return sum(entry.bytes for entry in alive if entry.role == role)


def _phase_at(books: Books, moment: int) -> str:
    return next((phase for start, phase in reversed(books.starts) if start <= moment), PHASES[0])


def _changes(entries: Iterable[Entry]) -> list[tuple[int, int]]:
    """Births and deaths in order, as (moment, bytes)."""
    found = []
    for entry in entries:
        found.append((entry.born, entry.bytes))
        if entry.died is not None:
            found.append((entry.died, -entry.bytes))
    return sorted(found)
