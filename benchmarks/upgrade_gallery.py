"""Carries the gallery from release to release of transformers by `patchgen rebase --write`.

    python benchmarks/upgrade_gallery.py RELEASES [VARIANT...] [--range 5.10.1..5.23.0] [--jobs 1]

RELEASES is a folder of releases, unpacked or as wheels.  Each variant starts with its modular file
as it is checked in, on the first release of the range on which that file converts.  It is rebased
onto each release that follows.  What `rebase` leaves to a person stays as it is, because the
declaration is known to fit the last release.  On the last release it has to give the outputs
that the file gives as it is checked in, byte for byte.  All of this happens in copies of the
project.
Wheels are unpacked into the user's cache, 1.6 GB for 24 of them.

Writes upgrade.json and upgrade.md after each variant; variants that are not named keep their rows,
if these are about the same releases.
The exit code is 1 if a variant ends with other outputs.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from convert import REPOSITORY
from stale import printed

from patchgen import disk
from patchgen.author.adopt.releases import Release, chosen, releases_in
from patchgen.author.rebase.work import OPEN, State
from patchgen.author.rebase.write import without_comments
from patchgen.project.markdown import table_lines
from patchgen.project.places import LOCK, user_folder

Report = dict[str, Any]  # what `patchgen rebase` says of one modular file

PROBLEM = "does not convert"
FITTING = frozenset({State.MOVED})
REWRITTEN = frozenset({State.REANCHORED, State.MERGED, State.ABSORBED})
LEFT = OPEN | {PROBLEM}
NUMBERS = ("changes", "moved", "rewritten", "left")
HEADS = ("variant", "from", "changes", "changed by", *NUMBERS[1:], "the end")
HEAD = """\
# Upgrading the gallery

Written by `python benchmarks/upgrade_gallery.py RELEASES`. Each variant was rebased by
`patchgen rebase --write` from release to release of transformers, {first} to {last} ({releases}
releases). It starts with its modular file as it is checked in, on the first of these releases on
which that file converts.

- *changes* counts the methods and attributes of its parent that the modular file changes. It is 0
  where ready-made parts do all of it.
- *changed by* has the releases in which upstream changed one of them, too.
- *moved*, *rewritten* and *left* count them once for each of these releases: those that fit as
  they are, those that `rebase` wrote anew, and those that it left to a person
  ([the states](../upgrading.md#the-states)). The person left them as they were: the declaration is
  known to fit {last}.
- *the end* compares the outputs on {last} with those of the file as it is checked in, byte for
  byte.

Nearly all modular files convert on all of these releases as they are ([which](../survive.md)). So
the table shows that `rebase` breaks nothing, and what it asks a person to look at. What it can
carry over is shown by [rebasing forks](rebase.md).
"""


@dataclass(frozen=True, slots=True)
class Change:
    """What a release means for one change of a variant, or a problem of the whole file."""

    release: str
    name: str
    state: str


@dataclass(frozen=True, slots=True)
class Row:
    """A variant from its first release to the last.

    `declared` counts its changes; `changes` are those of them that a release changed, too.
    """

    variant: str
    first: str
    declared: int
    changes: tuple[Change, ...]
    is_equal: bool


def main() -> int:
    """Write a row for each variant; 1 if one ends with other outputs."""
    parser = make_parser()
    options = parser.parse_args()
    modulars = {name_of(path): path for path in (REPOSITORY / "modular").rglob("modular_*.py")}
    if unknown := set(options.variants) - modulars.keys():
        parser.error(f"not in the gallery: {', '.join(sorted(unknown))}")
    wanted = [modulars[name] for name in options.variants or sorted(modulars)]
    releases = releases_of(options.releases, options.range)
    rows = read_rows(options.out / "upgrade.json", releases)
    with ProcessPoolExecutor(options.jobs) as pool:
        for row in pool.map(partial(upgraded, releases=releases), wanted):
            rows[row.variant] = row
            known = [rows[name] for name in sorted(rows) if name in modulars]
            write_rows(options.out, known, releases, len(modulars))
            print(*cells_of(row), sep="  ", flush=True)
    return int(not all(rows[name_of(path)].is_equal for path in wanted))


def make_parser() -> argparse.ArgumentParser:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("releases", type=Path)
    parser.add_argument("variants", nargs="*")
    parser.add_argument("--range", default="5.10.1..5.23.0")
    parser.add_argument("--jobs", type=int, default=1, help="how many variants at a time")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs/records")
    return parser


def releases_of(folder: Path, asked: str) -> tuple[Release, ...]:
    """The releases of a range that a folder has, oldest first and unpacked."""
    cache = user_folder() / "releases"
    found = chosen((asked,), releases_in(folder.resolve(), cache), cache, download=False)
    for release in found:
        release.root()  # unpacked here: two processes must not do it at once
    return found


def name_of(modular: Path) -> str:
    """The variant's name."""
    return modular.stem.removeprefix("modular_")


# One variant


def upgraded(modular: Path, releases: Sequence[Release]) -> Row:
    """Carry a variant from release to release, in a copy of the project."""
    path = modular.relative_to(REPOSITORY)
    last = str(releases[-1].root())
    outputs = []
    first, declared = "", 0
    changes: tuple[Change, ...] = ()
    for is_rebased in (False, True):
        with tempfile.TemporaryDirectory(prefix="patchgen-benchmark-") as place:
            project = Path(place)
            shutil.copytree(REPOSITORY / "modular", project / "modular")
            shutil.copy(REPOSITORY / "pyproject.toml", project)
            with contextlib.chdir(project):
                if is_rebased:
                    first, declared, changes = rebased(path, releases)
                printed(["convert", "--package-root", last, str(path)])
            outputs.append(outputs_of(path, project))
    return Row(name_of(modular), first, declared, changes, outputs[0] == outputs[1] != {})


def rebased(modular: Path, releases: Sequence[Release]) -> tuple[str, int, tuple[Change, ...]]:
    """Rebase a modular file onto each release, and write it.

    Gives the release that it starts on, how many changes it has, and those that a release changed.
    """
    first, declared = "", 0
    changes: list[Change] = []
    for old, new in itertools.pairwise(releases):
        roots = ["--from-root", str(old.root()), "--to-root", str(new.root())]
        (report,) = printed(["rebase", str(modular), *roots, "--write"])
        if not first and is_refused(report):
            continue
        # The person leaves the declaration as it is.
        modular.write_text(without_comments(modular.read_text(encoding="utf-8")), encoding="utf-8")
        first, declared = first or old.version, len(report["changes"])
        changes += changes_in(report, new.version)
    return first or releases[-1].version, declared, tuple(changes)


def is_refused(report: Report) -> bool:
    """Whether a modular file did not convert on the release that it comes from."""
    return bool(report["problems"]) and not report["changes"]


def changes_in(report: Report, release: str) -> Iterator[Change]:
    """What is not unchanged, and problems as changes of the whole file."""
    for change in report["changes"]:
        if change["state"] != State.UNCHANGED:
            name = ".".join(part for part in (change["class"], change["member"]) if part)
            yield Change(release, name, change["state"])
    for problem in report["problems"]:
        yield Change(release, f"{problem['code']} {problem['message']}", PROBLEM)


def outputs_of(modular: Path, project: Path) -> dict[str, bytes]:
    """The outputs of a modular file, by their names; none if it did not convert."""
    if not (project / LOCK).is_file():
        return {}
    outputs = json.loads((project / LOCK).read_text(encoding="utf-8"))["outputs"]
    names = [name for name, record in outputs.items() if record["modular"] == modular.as_posix()]
    return {name: (project / name).read_bytes() for name in names}


# What is written


def read_rows(path: Path, releases: Sequence[Release]) -> dict[str, Row]:
    """The rows of earlier runs over the same releases, by variant."""
    data = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"releases": []}
    if data["releases"] != [release.version for release in releases]:
        return {}
    rows: dict[str, Row] = {}
    for row in data["rows"]:
        changes = tuple(Change(**change) for change in row["changes"])
        rows[row["variant"]] = Row(**row | {"changes": changes})
    return rows


def write_rows(out: Path, rows: Sequence[Row], releases: Sequence[Release], gallery: int) -> None:
    """Write both files; a run that is killed leaves those of the variant before.

    `gallery` is the number of all variants.
    """
    versions = [release.version for release in releases]
    data = {"releases": versions, "rows": [asdict(row) for row in rows]}
    disk.write(out / "upgrade.json", json.dumps(data, indent=1) + "\n", out)
    disk.write(out / "upgrade.md", page_of(rows, versions, gallery), out)


def page_of(rows: Sequence[Row], versions: Sequence[str], gallery: int) -> str:
    """The page in Markdown."""
    count = sum(row.is_equal for row in rows)
    head = HEAD.format(releases=len(versions), first=versions[0], last=versions[-1])
    result = f"{count} of {len(rows)} variants end with the outputs of the file that is checked in"
    result += f" ({len(rows)} of {gallery} variants were run)." if len(rows) < gallery else "."
    table = table_lines(HEADS, [cells_of(row) for row in rows], numbers=NUMBERS)
    left = [line for row in rows for line in left_in(row)]
    lines = [head, result, "", *table]
    lines += ["", "## Left to a person", "", *left] if left else []
    return "\n".join(lines) + "\n"


def cells_of(row: Row) -> tuple[str, ...]:
    """A row of the table."""
    releases = dict.fromkeys(change.release for change in row.changes)
    counts = [
        sum(change.state in states for change in row.changes)
        for states in (FITTING, REWRITTEN, LEFT)
    ]
    end = "as checked in" if row.is_equal else "**not as checked in**"
    return row.variant, row.first, str(row.declared), ", ".join(releases), *map(str, counts), end


def left_in(row: Row) -> Iterator[str]:
    """A line for each change that was left."""
    for change in row.changes:
        if change.state in LEFT:
            yield f"- {row.variant}, {change.release}: `{change.name}`, {change.state}"


if __name__ == "__main__":
    sys.exit(main())
