"""Measures the CPU milliseconds of each step of flattening the modular files, beside yardsticks.

    python benchmarks/steps.py [--repeat N]

A step's figure excludes the steps that it calls, and includes child processes (ruff).  Every run
starts with an empty memory and no cache.  Figures are medians over the repeats, one file after the
other in one process.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import resource
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

import patchgen.compiler.flatten
from patchgen.compiler.emit import outputs
from patchgen.compiler.link import modules
from patchgen.compiler.settings import Settings
from patchgen.errors import Location
from patchgen.syntax import blocks, locate

# Where a step is entered, and what it is called here.
STEPS = (
    (locate, "index", "read names of a file"),
    (patchgen.compiler.flatten, "make_plan", "plan"),
    (modules, "merge_classes", "merge classes"),
    (modules, "link_module", "link"),
    (outputs, "format_texts", "format (ruff)"),
    (outputs, "map_lines", "map lines"),
    (outputs, "validate", "validate"),
)
WHOLE = "flatten, all together"


def cpu() -> float:
    """CPU seconds of this process and of the children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


class Clock:
    """Adds up what each step takes by itself."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self._inner = [0.0]

    def time_runs(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._inner.append(0.0)
        start = cpu()
        try:
            return function(*args, **kwargs)
        finally:
            took = cpu() - start
            self.spent[name] += took - self._inner.pop()
            self._inner[-1] += took


@contextlib.contextmanager
def watched(clock: Clock) -> Iterator[None]:
    """Every step goes by `clock`."""
    with contextlib.ExitStack() as stack:
        for module, attribute, name in STEPS:
            watching = partial(clock.timed, name, getattr(module, attribute))
            stack.enter_context(mock.patch.object(module, attribute, watching))
        yield


def flattening(path: Path) -> dict[str, float]:
    """One cold flattening of the modular file at `path`."""
    blocks._references.cache_clear()
    clock = Clock()
    with watched(clock):
        env = locate.make_environment(REPOSITORY)
        result = clock.timed(
            "what is left", patchgen.compiler.flatten.flatten, path, env, Settings()
        )
    assert result.files, result.problems
    return {**clock.spent, WHOLE: sum(clock.spent.values())}


def parents_of(path: Path) -> tuple[list[str], list[str]]:
    """The texts of the modules, and of the classes, that `path` is merged with."""
    env = locate.make_environment(REPOSITORY)
    (file, *_) = patchgen.compiler.flatten.flatten(path, env, Settings()).files
    modules = sorted({used.symbol.rpartition(".")[0] for used in file.parents})
    indexes = [env.index(module, Location(module)) for module in modules]
    found = [index.definition(name) for index in indexes for name in file.summary.classes]
    return [index.source.text for index in indexes], [block.text for block in found if block]


def yardsticks(path: Path) -> dict[str, float]:
    """What parsing alone costs."""
    try:
        import libcst
    except ImportError:
        return {}
    clock = Clock()
    modules, classes = parents_of(path)
    for text in modules:
        clock.timed("ast.parse of the parents", ast.parse, text)
        clock.timed("libcst.parse_module of the parents", libcst.parse_module, text)
    for text in classes:
        clock.timed("ast.parse of the changed classes alone", ast.parse, text)
        clock.timed("libcst.parse_module of the changed classes alone", libcst.parse_module, text)
    return clock.spent


def importing(name: str) -> float:
    """Return the CPU seconds of `import name` in a new process, less those of an empty process."""

    def once(script: str) -> float:
        start = cpu()
        subprocess.run([sys.executable, "-c", script], check=True, cwd=REPOSITORY)
        return cpu() - start

    return max(once(f"import {name}") - once("pass"), 0.0)


def medians(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: 1000 * statistics.median(run[name] for run in runs) for name in runs[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    paths = sorted((REPOSITORY / "modular").rglob("modular_*.py"))
    gc.disable()  # as the command line does while it flattens
    columns = {
        path.stem.removeprefix("modular_"): [flattening(path) for _ in range(repeat)]
        for path in paths
    }
    rulers = {
        path.stem.removeprefix("modular_"): [yardsticks(path) for _ in range(repeat)]
        for path in paths
    }
    results = {name: medians(columns[name]) | medians(rulers[name]) for name in columns}
    rows = [name for _, _, name in STEPS] + ["what is left", WHOLE, *rulers[next(iter(rulers))][0]]
    print(f"{'CPU milliseconds':50}", *(f"{name:>13}" for name in results))
    for row in rows:
        print(f"{row:50}", *(f"{result.get(row, 0.0):13.1f}" for result in results.values()))
    for name in ("patchgen.compiler.flatten", "libcst"):
        took = statistics.median(importing(name) for _ in range(repeat))
        print(f"{f'import {name} in a fresh process':50} {1000 * took:13.1f}")


if __name__ == "__main__":
    main()
