"""Measures what checking the gallery costs, relative to a yardstick.

    python benchmarks/gallery.py [--runs 1] [--out docs/records]

G is the CPU time that `libcst.parse_module` takes for the modeling files of transformers that the
gallery is made from, in the same run.  Everything is timed from outside: whole processes, including
their start and their children.  The second release is a copy of transformers in which a blank line
stands behind every modeling file: all are read again, and no output changes.  In the changed one,
five of the parents also assign one attribute more, and a function more stands in modeling_utils.py,
which every variant reads.  Writes gallery.json and gallery.md.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from convert import REPOSITORY, YARDSTICK, Row, Sample, measure

from patchgen.project.lock import read_lock

ONE = "modular/mpnet/modular_mpnet_checkpoint.py"
CHANGED = 5  # parents
TARGETS = {"all variants, cold": "3 G", "one variant, cold": "0.4 s", "a second release": "2 G"}


def find_parents(installed: Path) -> list[Path]:
    """The modeling files of transformers that outputs of the gallery are made from."""
    found: set[Path] = set()
    for record in read_lock(REPOSITORY / "patchgen.lock").values():
        for module in record.parents:
            if module.startswith("transformers.models.") and ".modeling_" in module:
                found.add(installed.parent / f"{module.replace('.', '/')}.py")
    return sorted(found)


def copy_release(installed: Path, folder: Path) -> Path:
    """A copy of transformers below `folder`, with a blank line behind every modeling file."""
    ignored = shutil.ignore_patterns("__pycache__")
    copy = Path(shutil.copytree(installed, folder / "transformers", ignore=ignored))
    for path in copy.glob("models/*/modeling_*.py"):
        path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    return folder


def change_release(release: Path, installed: Path, parents: list[Path]) -> None:
    """Change a few files of the copy at `release`, as a next release would."""
    for parent in parents[:: len(parents) // CHANGED][:CHANGED]:
        path = release / parent.relative_to(installed.parent)
        text, call = path.read_text(encoding="utf-8"), "        super().__init__()\n"
        assert call in text, f"{path} has no such call"
        changed = text.replace(call, f"{call}        self.of_next_release = True\n", 1)
        path.write_text(changed, encoding="utf-8")
    with (release / "transformers/modeling_utils.py").open("a", encoding="utf-8") as file:
        file.write("\n\ndef of_next_release():\n    return None\n")


def measure_rows(runs: int) -> list[Row]:
    spec = importlib.util.find_spec("transformers")
    assert spec is not None and spec.origin is not None
    installed = Path(spec.origin).parent
    parents = find_parents(installed)
    variants = len(list((REPOSITORY / "modular").rglob("modular_*.py")))
    check = [sys.executable, "-m", "patchgen", "check", "-q", "-j", "1"]
    with tempfile.TemporaryDirectory(prefix="patchgen-benchmark-") as folder:
        release = copy_release(installed, Path(folder, "release"))
        changed = copy_release(installed, Path(folder, "changed"))
        change_release(changed, installed, parents)
        env = os.environ | {"PYTHONPATH": str(REPOSITORY)}
        # As those of an installed package are, all modules are compiled before.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        env["PYTHONPYCACHEPREFIX"] = str(Path(folder, "compiled"))
        measure([sys.executable, "-c", "import libcst"], env)
        measure(check, env)  # fills the cache too
        commands = (
            ("**G**", len(parents), [sys.executable, "-c", YARDSTICK, *map(str, parents)]),
            ("all variants, cold", variants, [*check, "--no-cache"]),
            ("one variant, cold", 1, [*check, "--no-cache", ONE]),
            ("all variants, unchanged", variants, check),
        )
        samples: dict[tuple[str, int], list[Sample]] = {}
        # In turn, so that other work on the machine slows all of them alike.
        for number in range(runs):
            # The cache knows a release by its path, so that each run finds it at another one.
            changed = changed.rename(Path(folder, f"changed-{number}"))
            again = release.rename(Path(folder, f"again-{number}"))
            second = ("a second release", variants, [*check, "--package-root", str(again)])
            for name, files, command in (*commands, second):
                samples.setdefault((name, files), []).append(measure(command, env))
            # Outputs that are no longer up to date end the check with 1.
            name, command = "a second release, changed", [*check, "--package-root", str(changed)]
            samples.setdefault((name, variants), []).append(measure(command, env, code=1))
            # What was kept is again that of the installed release, as the next run begins.
            release = again.rename(Path(folder, f"release-{number}"))
            measure([*check, "--package-root", str(release)], env)
    rows: list[Row] = []
    for (name, files), taken in samples.items():
        cpu, wall, memory = (
            statistics.median(getattr(sample, part) for sample in taken)
            for part in ("cpu", "wall", "memory")
        )
        rows.append(Row(name, files, cpu, wall, memory, cpu / (rows[0].cpu if rows else cpu)))
    return rows


def as_markdown(rows: list[Row], about: dict[str, str]) -> str:
    yardstick, *others = rows
    lines = [
        "| | CPU s | in G | target | wall s | peak memory |",
        "|---|---:|---:|---:|---:|---:|",
        f"| {yardstick.name}: `libcst.parse_module` of {yardstick.files} parents "
        f"| {yardstick.cpu:.2f} | 1 | | | |",
    ]
    for row in others:
        numbers = f"{row.cpu:.2f} | {row.y:.2f} | {TARGETS.get(row.name, '')}"
        lines.append(f"| {row.name} | {numbers} | {row.wall:.2f} | {row.memory:.0f} MB |")
    described = "; ".join(f"{key} {value}" for key, value in about.items())
    head = f"`patchgen check` of the gallery, {others[0].files} variants, in one process."
    end = f"Written by `python benchmarks/gallery.py`. Whole processes. {described}."
    return "\n".join([head, "", *lines, "", end, ""])


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1, help="samples, of which the median counts")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs/records")
    options = parser.parse_args()
    rows = measure_rows(options.runs)
    about = {
        "transformers": importlib.metadata.version("transformers"),
        "Python": platform.python_version(),
        "median of": str(options.runs),
    }
    data = {**about, "rows": [asdict(row) for row in rows]}
    (options.out / "gallery.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    (options.out / "gallery.md").write_text(as_markdown(rows, about), encoding="utf-8")


if __name__ == "__main__":
    main()
