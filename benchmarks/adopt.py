"""Counts the forks that `patchgen adopt` reproduces, and the length of its declarations.

python benchmarks/adopt.py FORKS RELEASES [--parent MODEL]
python benchmarks/adopt.py --upstream RELEASE

FORKS is a folder of changed copies of modeling files.  RELEASES is a folder of releases of
transformers, unpacked or as wheels: `pip download --no-deps transformers==4.37.2` gets one.  Each
fork is adopted in a process of its own.  With `--upstream`, modular files are drafted for the models
of one unpacked release that have none.  The table goes to stdout as Markdown.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from patchgen.author.adopt.parents import modeling_files
from patchgen.author.adopt.releases import Release, releases_in
from patchgen.author.adopt.upstream import draft_model
from patchgen.compiler.settings import Settings
from patchgen.errors import PatchgenError


def main() -> int:
    """Print a row for each fork."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("forks", type=Path, nargs="?")
    parser.add_argument("releases", type=Path, nargs="?")
    parser.add_argument("--parent")
    parser.add_argument("--upstream", type=Path, metavar="RELEASE")
    options = parser.parse_args()
    if options.upstream is not None:
        return draft_all(options.upstream)
    if options.releases is None:
        parser.error("name FORKS and RELEASES, or --upstream RELEASE")
    print("| fork | parent | release | regenerates | lines | of | share | verdict | CPU |")
    print("|---|---|---|---|---:|---:|---:|---|---:|")
    for path in sorted(options.forks.glob("*.py")):
        print(f"| {' | '.join(row(path, options.releases, options.parent))} |", flush=True)
    return 0


def draft_all(folder: Path) -> int:
    """Print a row for each model of the release in `folder` that has no modular file."""
    (release,) = releases_in(folder, folder)
    print("| model | derived from | regenerates | lines | of | share |")
    print("|---|---|---|---:|---:|---:|")
    for _, path in modeling_files(release):
        if path.with_name(path.name.replace("modeling_", "modular_", 1)).is_file():
            continue
        print(f"| {' | '.join(draft_row(path, release))} |", flush=True)
    return 0


def draft_row(path: Path, release: Release) -> Iterator[str]:
    """The cells of one model."""
    yield path.stem.removeprefix("modeling_")
    try:
        draft = draft_model(path, release, Settings())
    except PatchgenError as error:
        yield from [error.problem.what, "no", "", "", ""]
        return
    yield ", ".join(module.partition(".")[0] for module in draft.parents)
    yield "yes" if draft.proof.holds else "no"
    yield str(draft.lines)
    yield str(draft.model_lines)
    yield f"{draft.share:.0%}"


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
