"""Measures the cost of converting transformers' own modular files, relative to a yardstick.

    python benchmarks/convert.py [--runs 3] [--out docs/records]

Y is the CPU time that `libcst.parse_module` takes for the 326 modular files alone, in a process of
its own, with the default garbage collector.  Everything is timed from outside: whole processes,
including their start and their children.  All modules are compiled before, as those of an installed
package are, libcst's too, whatever PYTHONDONTWRITEBYTECODE says.  Writes convert.json, convert.md
and convert.svg.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.charts.bars import Bar, bars

REPOSITORY = Path(__file__).resolve().parents[1]
YARDSTICK = """
import sys
import libcst
for path in sys.argv[1:]:
    libcst.parse_module(open(path, encoding="utf-8").read())
"""
ONE = "gemma3"  # of middle size: two outputs, four parents
TARGETS = {"whole corpus, cold": 1.0, "unchanged check": 0.02, "one file, fresh process": 0.05}


@dataclass(frozen=True, slots=True)
class Sample:
    """One process with its children: seconds, and the largest memory of a single process in MB."""

    cpu: float
    wall: float
    memory: float


@dataclass(frozen=True, slots=True)
class Row:
    """The median of several samples: `files` modular files; `y` is CPU time in yardsticks."""

    name: str
    files: int
    cpu: float
    wall: float
    memory: float
    y: float


def measure(
    command: Sequence[str], env: dict[str, str], code: int = 0, folder: Path | None = None
) -> Sample:
    """The cost of `command` in `folder`, which must exit with `code`."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, env=env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    messages = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != code:
        begin, end = " ".join(command[:6]), messages.decode()[-2000:]
        raise SystemExit(f"{begin} ... exits with {process.returncode}\n{end}")
    return Sample(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


class Corpus:
    """A copy of the models of the installed transformers, and the command lines that work on it."""

    def __init__(self, place: Path, repository: Path = REPOSITORY) -> None:
        self.repository = repository
        spec = importlib.util.find_spec("transformers")
        assert spec is not None and spec.origin is not None, "install transformers"
        self.origin = Path(spec.origin).parent
        self.tree = place / "tree"
        self.package = self.tree / "transformers"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(self.origin / "models", self.package / "models", ignore=ignored)
        shutil.copy(self.origin / "__init__.py", self.package)
        self.modulars = sorted(map(str, self.package.glob("models/*/modular_*.py")))
        self.cache = place / "cache"
        self.env = {
            name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
        }
        self.env |= {"PATCHGEN_CACHE_DIR": str(self.cache), "PYTHONPATH": str(repository)}
        self.env["PYTHONPYCACHEPREFIX"] = str(place / "compiled")  # not into the repository

    @property
    def release(self) -> str:
        """The release of transformers."""
        found = re.search(
            r'^__version__ = "(.*)"', (self.origin / "__init__.py").read_text(), re.MULTILINE
        )
        return found[1] if found else "?"

    def run(self, script: str, *argv: str, code: int = 0) -> Sample:
        """The cost of one of the scripts on files of the tree."""
        command = [
            sys.executable,
            str(self.repository / "utils" / script),
            "--package-root",
            str(self.tree),
            *argv,
        ]
        return measure(command, self.env, code, self.repository)

    def forget(self) -> None:
        """Makes the next run a cold one."""
        shutil.rmtree(self.cache, ignore_errors=True)

    def generated(self) -> list[Path]:
        """The outputs of all modular files."""
        mark = b"automatically generated from src/transformers/"
        paths = (
            path for path in self.package.glob("models/*/*_*.py") if path.name != "__init__.py"
        )
        return [path for path in paths if mark in path.read_bytes()[:2000]]


def scenarios(corpus: Corpus) -> dict[str, tuple[int, Callable[[], Sample]]]:
    """Return the tasks in order: the number of modular files, and a function that measures once."""
    every = len(corpus.modulars)
    one = corpus.package / f"models/{ONE}/modular_{ONE}.py"

    def cold(jobs: int) -> Sample:
        corpus.forget()
        return corpus.run("modular_converter.py", "--jobs", str(jobs), *corpus.modulars)

    def scratch(jobs: int) -> Sample:
        corpus.forget()
        for path in corpus.generated():
            path.unlink()
        return corpus.run("modular_converter.py", "--jobs", str(jobs), *corpus.modulars)

    def edited() -> Sample:
        text = one.read_text(encoding="utf-8")
        one.write_text(f"{text}\n# edited\n", encoding="utf-8")
        sample = corpus.run("check_modular.py", *corpus.modulars)
        one.write_text(text, encoding="utf-8")
        corpus.run("check_modular.py", *corpus.modulars)
        return sample

    return {
        "whole corpus, cold": (every, lambda: cold(1)),
        "whole corpus, cold, 2 workers": (every, lambda: cold(2)),
        "all 667 outputs missing": (every, lambda: scratch(1)),
        "all 667 outputs missing, 2 workers": (every, lambda: scratch(2)),
        "one file edited, all checked (warm)": (every, edited),
        "unchanged check": (every, lambda: corpus.run("check_modular.py", *corpus.modulars)),
        "one file, fresh process": (
            1,
            lambda: corpus.run("check_modular.py", "--no-cache", str(one)),
        ),
    }


def rows(corpus: Corpus, runs: int) -> tuple[float, list[Row]]:
    """Y and the medians of everything; the yardstick is measured before and after."""
    command = [sys.executable, "-c", YARDSTICK, *corpus.modulars]
    measure(command, corpus.env)  # compiles modules, and so does the next
    corpus.run("modular_converter.py", *corpus.modulars)
    yardsticks = [measure(command, corpus.env).cpu for _ in range((runs + 1) // 2)]
    medians = {}
    for name, (files, sample) in scenarios(corpus).items():
        samples = [sample() for _ in range(runs)]
        cpu, wall = (
            statistics.median(getattr(one, key) for one in samples) for key in ("cpu", "wall")
        )
        medians[name] = files, cpu, wall, max(one.memory for one in samples)
        print(f"{name:40} {cpu:7.2f} s CPU {wall:7.2f} s wall", flush=True)
    yardsticks += [measure(command, corpus.env).cpu for _ in range((runs + 1) // 2)]
    y = statistics.median(yardsticks)
    return y, [
        Row(name, files, cpu, wall, memory, cpu / y)
        for name, (files, cpu, wall, memory) in medians.items()
    ]


def as_markdown(y: float, table: Sequence[Row], about: dict[str, str]) -> str:
    """The table of all tasks, of which the README shows some."""
    lines = [
        "| | CPU s | in Y | target | wall s | files/s | peak memory |",
        "|---|---:|---:|---:|---:|---:|---:|",
        f"| **Y**: `libcst.parse_module` of the {table[0].files} modular files "
        f"| {y:.2f} | 1 | | | | |",
    ]
    for row in table:
        target = f"{TARGETS[row.name]:g}" if row.name in TARGETS else ""
        lines.append(
            f"| {row.name} | {row.cpu:.2f} | {row.y:.3f} | {target} | {row.wall:.2f} "
            f"| {row.files / row.wall:.0f} | {row.memory:.0f} MB |"
        )
    versions = "; ".join(f"{key} {value}" for key, value in about.items())
    return "\n".join(
        [
            *lines,
            "",
            f"Medians of whole processes, formatting and children included. {versions}.",
            "",
        ]
    )


def as_svg(table: Sequence[Row]) -> str:
    """Bars of CPU time in yardsticks on a logarithmic scale."""
    rows = [
        Bar(row.name, (row.y,), caption=f"{row.y:.3f}", target=TARGETS.get(row.name))
        for row in table
    ]
    title = "CPU time of converting transformers' modular files; dashed: target"
    across = "in units of the time that libcst.parse_module takes for them (logarithmic)"
    return bars(title, rows, across=across, logarithmic=True)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--runs", type=int, default=3, help="samples of each figure, of which the median counts"
    )
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs/records")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="patchgen-benchmark-") as place:
        corpus = Corpus(Path(place))
        y, table = rows(corpus, options.runs)
        about = {
            "transformers": corpus.release,
            "Python": platform.python_version(),
            "processors": str(len(os.sched_getaffinity(0))),
            "median of": str(options.runs),
        }
    options.out.mkdir(parents=True, exist_ok=True)
    data = {"yardstick": y, **about, "rows": [asdict(row) for row in table]}
    (options.out / "convert.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    markdown = as_markdown(y, table, about)
    (options.out / "convert.md").write_text(markdown, encoding="utf-8")
    (options.out / "convert.svg").write_text(as_svg(table), encoding="utf-8")
    print(markdown)


if __name__ == "__main__":
    main()
