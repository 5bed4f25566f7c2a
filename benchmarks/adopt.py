"""Counts the forks that `patchgen adopt` reproduces, and the length of its declarations.

python benchmarks/adopt.py FORKS RELEASES [--parent MODEL]

FORKS is a folder of changed copies of modeling files, RELEASES a folder of unpacked releases and
wheels of transformers.  Each fork is adopted in a process of its own; the table goes to stdout as
Markdown.  PyPI has the releases: `pip download --no-deps transformers==4.37.2`.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def main() -> int:
    """Print a row for each fork."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("forks", type=Path)
    parser.add_argument("releases", type=Path)
    parser.add_argument("--parent")
    options = parser.parse_args()
    print("| fork | parent | release | regenerates | lines | of | share | verdict | CPU |")
    print("|---|---|---|---|---:|---:|---:|---|---:|")
    for path in sorted(options.forks.glob("*.py")):
        print(f"| {' | '.join(row(path, options.releases, options.parent))} |", flush=True)
    return 0


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
