"""Sizes each case from the memory of a card, by prediction.

The peak of each phase grows linearly with the rows once there are some, so that two predictions of
an entry, at half of its rows and at all, tell it for any number, on any card.  They take seconds
each, and are kept in `peaks.json`:

    python -m benchmarks.bench.plan      predicts what is missing there, and writes it
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.bench.cases import Case, Entry, load_cases
from benchmarks.bench.models import class_of, make_config
from patchgen import disk
from patchgen.runtime.attention import FASTEST
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.memory.figures import summarize
from patchgen.training.memory.step import Setup, predict_step
from patchgen.training.memory.target import Target

STORED = Path(__file__).with_name("peaks.json")
# Bytes that torch can have on a card; the driver and libraries take the rest.
CARDS = {
    "h100": 84e9,
    "h200": 149e9,
    "a100": 84e9,
    "a100-40gb": 42e9,
    "l40s": 47e9,
    "rtx4090": 25e9,
}
ROOM = 0.92  # of these: what an allocator cannot use
OF_TEXTS = ("varlen", FASTEST)  # these keep what SDPA keeps
LARGEST = 8  # a variant is tried with up to so many times the rows of the baseline
OPTIMIZERS = {"adamw-loop": "adamw", "torch-adafactor": "adafactor"}

# The peak of each phase with one row of a part of the batch, and what each further row adds.
Peaks = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Planned:
    """An entry of a case: at the rows of its baseline, and at the most that fit itself."""

    case: Case
    entry: Entry
    rows: int
    peak: int | None  # predicted; None for kernels that run on a GPU only
    most: int | None = None  # rows


def room_of(card: str) -> int:
    """Return the bytes to plan with; raise PG825 for a card that is not known."""
    if card not in CARDS:
        hint = f"there are {', '.join(CARDS)}"
        raise PatchgenError("PG825", Location(f"--card {card}"), "is not known", hint)
    return int(CARDS[card] * ROOM)


def is_predicted(entry: Entry) -> bool:
    """Return whether the peak of an entry can be predicted."""
    return not (entry.liger or entry.loss or entry.experts or entry.optimizer == "adamw-8bit")


def predict(case: Case, entry: Entry, part: int) -> list[int]:
    """Return the peak of each phase of a step whose parts have so many rows."""
    longest = case.packed[1] if case.packed and entry.layout != "packed" else case.length
    setup = Setup(
        batch=part,
        length=longest,
        precision=entry.precision,
        optimizer=OPTIMIZERS.get(entry.optimizer, entry.optimizer),
        checkpoint=entry.checkpoint or "none",
        accumulate=min(2, entry.accumulate),
        attention="" if entry.attention in OF_TEXTS else entry.attention,
        device="cuda",
    )
    target = Target(entry.name, class_of(case, entry), make_config(case))
    return [*summarize(predict_step(target, setup)).peaks.values()]


def eager_name(entry: Entry) -> str:
    """Return the entry's name without the words for what holds as much, such as compilation."""
    words = [word for word in entry.name.split(" + ") if not word.startswith("compile")]
    return " + ".join(word for word in words if word not in ("rows x4", "fastest attention"))


def peaks_of(case: Case, entry: Entry) -> Peaks:
    """Return the peaks that are stored, or else predict them."""
    stored = _stored().get(case.id, {}).get(eager_name(entry))
    if stored is not None and not case.tiny:
        return [(first, more) for first, more in stored]
    eager = replace(entry, compiled="")
    most_rows = max(2, case.rows * entry.times // entry.accumulate)
    half_of_them = most_rows // 2
    with_half = predict(case, eager, half_of_them)
    with_most = predict(case, eager, most_rows)
    peaks = []
    for half, most in zip(with_half, with_most, strict=True):
        slope = (most - half) // (most_rows - half_of_them)
        first = half - slope * (half_of_them - 1)
        peaks.append((first, slope))
    return peaks


def _stored() -> dict[str, dict[str, list[list[int]]]]:
    return disk.read_json(STORED) if STORED.is_file() else {}


def peak_at(case: Case, entry: Entry, peaks: Peaks, rows: int) -> int:
    """Return the peak of a step of so many rows of the case."""
    part = -(-case.shape(entry, rows)[0] // entry.accumulate)
    return max(first + more * (part - 1) for first, more in peaks)


def plan(cases: Sequence[Case], room: int) -> Iterator[Planned]:
    """Yield each entry with its rows: as many as let the baseline fit, up to those of the case."""
    for case in cases:
        rows = _most(case, case.baseline, peaks_of(case, case.baseline), room, case.rows)
        for entry in case.entries:
            if not is_predicted(entry) or not rows:
                yield Planned(case, entry, rows, None)
                continue
            peaks = peaks_of(case, entry)
            asked = entry.variant and not entry.compiled
            most = _most(case, entry, peaks, room, LARGEST * rows) if asked else None
            yield Planned(case, entry, rows, peak_at(case, entry, peaks, rows), most)


def _most(case: Case, entry: Entry, peaks: Peaks, room: int, most: int) -> int:
    fitting = (n for n in range(most, 0, -1) if peak_at(case, entry, peaks, n) <= room)
    return next(fitting, 0)


def main() -> None:
    """Predict what is not stored yet, and write it."""
    stored = _stored()
    for case in load_cases():
        known = stored.setdefault(case.id, {})
        for entry in filter(is_predicted, case.entries):
            if eager_name(entry) not in known:
                known[eager_name(entry)] = [list(pair) for pair in peaks_of(case, entry)]
                disk.write(STORED, json.dumps(stored, indent=1) + "\n", STORED.parent)
                print(case.id, eager_name(entry), flush=True)


if __name__ == "__main__":
    main()
