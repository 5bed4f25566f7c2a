"""Measures a conversion of the corpus and checks of it and of the gallery, beside another checkout.

    python benchmarks/beside.py CHECKOUT [--runs 5]

Each task is run by both in turn, so that other work on the machine slows both alike, and each works
on a tree, a cache and a gallery of its own.  Y and G are what convert.py and gallery.py measure by,
taken in the same turns.  Whole processes, user and system, with modules compiled before.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from convert import REPOSITORY, YARDSTICK, Corpus, measure
from gallery import find_parents

Task = Callable[[], float]


def tasks_of(repository: Path, place: Path) -> dict[str, Task]:
    """What is measured of a checkout, by name: each is a function that runs it once."""
    corpus = Corpus(place, repository)
    check = [sys.executable, "-m", "patchgen", "check", "-q", "-j", "1", "--no-cache"]

    def convert() -> float:
        corpus.forget()
        return corpus.run("modular_converter.py", "--jobs", "1", *corpus.modulars).cpu

    return {
        "corpus, cold": convert,
        "corpus, unchanged": lambda: corpus.run("check_modular.py", *corpus.modulars).cpu,
        "gallery, cold": lambda: measure(check, corpus.env, folder=repository).cpu,
    }


def parse(paths: list[str], corpus: Corpus) -> float:
    """The seconds that libcst takes for these files."""
    return measure([sys.executable, "-c", YARDSTICK, *paths], corpus.env).cpu


def main() -> None:
    """Print a row for each task: the medians of both, and what each run took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="patchgen-benchmark-") as place:
        now = tasks_of(REPOSITORY, Path(place, "now"))
        other = tasks_of(options.checkout.resolve(), Path(place, "other"))
        corpus = Corpus(Path(place, "yardstick"))
        parents = list(map(str, find_parents(corpus.origin)))
        yardsticks = {"Y": corpus.modulars, "G": parents}
        for name, task in now.items():
            unit = "G" if name.startswith("gallery") else "Y"
            sides: dict[str, Task] = {
                "now": task,
                "other": other[name],
                unit: partial(parse, yardsticks[unit], corpus),
            }
            for run in sides.values():  # compiles modules, and fills the cache
                run()
            taken: dict[str, list[float]] = {side: [] for side in sides}
            for _ in range(options.runs):
                for side, run in sides.items():
                    taken[side].append(run())
            print_row(name, unit, taken)


def print_row(name: str, unit: str, taken: dict[str, list[float]]) -> None:
    """One task: the medians, what they are of each other and of the yardstick, and every run."""
    median = {side: statistics.median(samples) for side, samples in taken.items()}
    print(f"{name}: {median['now'] / median['other']:.2f} of the other")
    for side, samples in taken.items():
        runs = " ".join(f"{sample:.2f}" for sample in samples)
        yards = median[side] / median[unit]
        print(f"    {side:6} {median[side]:7.2f} s  {yards:.3f} {unit}  ({runs})", flush=True)


if __name__ == "__main__":
    main()
