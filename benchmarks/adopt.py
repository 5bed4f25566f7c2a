"""Counts the forks that `patchgen adopt` reproduces, and the length of its declarations.

python benchmarks/adopt.py FORKS RELEASES [--parent MODEL]
python benchmarks/adopt.py --own RELEASE

FORKS is a folder of changed copies of modeling files.  RELEASES is a folder of releases of
transformers, unpacked or as wheels: `pip download --no-deps transformers==4.37.2` gets one.  Each
fork is adopted in a process of its own.  `--own` adopts the generated files of this repository, and
compares the declarations with those in `modular`.  The table goes to stdout as Markdown.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from patchgen.author.adopt.parents import candidate, find_file
from patchgen.author.adopt.read import read_fork
from patchgen.author.adopt.releases import Release, releases_in
from patchgen.author.adopt.work import adopt, code_lines
from patchgen.compiler.settings import Settings

HERE = Path(__file__).resolve().parents[1]
# As long as this many times the declaration in `modular`, an adopted one is called short.
SHORT = 1.5
PARENT = re.compile(r"^# Modified from (\S+);", re.MULTILINE)


def main() -> int:
    """Print a row for each fork."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("forks", type=Path, nargs="?")
    parser.add_argument("releases", type=Path, nargs="?")
    parser.add_argument("--parent")
    parser.add_argument("--own", type=Path, metavar="RELEASE")
    options = parser.parse_args()
    if options.own is not None:
        return adopt_own(options.own)
    if options.releases is None:
        parser.error("name FORKS and RELEASES, or --own RELEASE")
    print("| fork | parent | release | regenerates | lines | of | share | verdict | CPU |")
    print("|---|---|---|---|---:|---:|---:|---|---:|")
    for path in sorted(options.forks.glob("*.py")):
        print(f"| {' | '.join(row(path, options.releases, options.parent))} |", flush=True)
    return 0


def adopt_own(folder: Path) -> int:
    """Print a row for each generated file of this repository."""
    (release,) = releases_in(folder, folder)
    print("| file | regenerates | lines | ours | times |")
    print("|---|---|---:|---:|---:|")
    rows = []
    for path in sorted((HERE / "generated").glob("*/modeling_*.py")):
        rows.append(own_row(path, release))
        holds, lines, ours = rows[-1]
        cells = [path.stem, "yes" if holds else "no", str(lines), str(ours), f"{lines / ours:.2f}"]
        print(f"| {' | '.join(cells)} |", flush=True)
    held = sum(holds for holds, _, _ in rows)
    short = sum(holds and lines <= SHORT * ours for holds, lines, ours in rows)
    print(f"\n{held} of {len(rows)} come out again, {short} in {SHORT} times our lines.")
    return 0


def own_row(path: Path, release: Release) -> tuple[bool, int, int]:
    """Whether a generated file comes out again, the lines that takes, and those in `modular`."""
    fork = read_fork(path, str(path), Settings(), generated=True)
    parent = PARENT.search(fork.source.text)
    model = parent[1] if parent is not None else path.parent.name
    found = candidate(fork, release, *find_file(release, model))
    name = path.name.replace("modeling_", "modular_", 1)
    made = adopt(found.forked, name, release.root(), Settings())
    ours = (HERE / "modular" / path.parent.name / name).read_text(encoding="utf-8")
    return made.proof.holds, made.lines, code_lines(ours)


def row(path: Path, releases: Path, parent: str | None) -> Iterator[str]:
    """The cells of one fork."""
    command = [
        sys.executable,
        "-m",
        "patchgen",
        "adopt",
        str(path),
        "--package-root",
        str(releases),
    ]
    command += ["--output-format", "json", *(["--parent", parent] if parent else [])]
    before = _seconds()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    spent = _seconds() - before
    yield path.stem
    try:
        data = json.loads(done.stdout)
    except ValueError:
        yield from [
            "",
            "",
            "no",
            "",
            "",
            "",
            (done.stderr.strip().splitlines() or ["failed"])[0],
            f"{spent:.0f} s",
        ]
        return
    yield data["parent"].rpartition(".")[2].removeprefix("modeling_")
    yield data["release"]
    yield "yes" if data["regenerates"] else "no"
    yield str(data["lines"])
    yield str(data["fork_lines"])
    yield f"{data['share']:.0%}"
    yield data["verdict"]
    yield f"{spent:.1f} s"


def _seconds() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


if __name__ == "__main__":
    sys.exit(main())
