"""Counts the forks that `patchgen adopt` reproduces, and the length of its declarations.

python benchmarks/adopt.py FORKS RELEASES [--parent MODEL]
python benchmarks/adopt.py --own RELEASE
python benchmarks/adopt.py --upstream RELEASE

FORKS is a folder of changed copies of modeling files.  RELEASES is a folder of releases of
transformers, unpacked or as wheels: `pip download --no-deps transformers==4.37.2` gets one.  Each
fork is adopted in a process of its own.  `--own` adopts the generated files of this repository, and
compares the declarations with those in `modular`.  `--upstream` drafts modular files for the models
of one unpacked release that have none.  A parent is called circular there if its own modular file
derives from the model.  The table goes to stdout as Markdown.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from patchgen.author.adopt.lineage import find_heirs, read_lineage
from patchgen.author.adopt.parents import candidate, find_file, modeling_files
from patchgen.author.adopt.read import read_fork
from patchgen.author.adopt.releases import Release, releases_in
from patchgen.author.adopt.upstream import Draft, draft_model
from patchgen.author.adopt.work import adopt, code_lines
from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import PatchgenError

HERE = Path(__file__).resolve().parents[1]
# As long as this many times the declaration in `modular`, an adopted one is called short.
SHORT = 1.5
# What of a model none of its classes reads is left out by transformers' converter.
UNREAD = "but for unread functions"
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
    parser.add_argument("--upstream", type=Path, metavar="RELEASE")
    options = parser.parse_args()
    if options.upstream is not None:
        return draft_all(options.upstream)
    if options.own is not None:
        return adopt_own(options.own)
    if options.releases is None:
        parser.error("name FORKS and RELEASES, --own RELEASE or --upstream RELEASE")
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
    drafts = []
    for _, path in modeling_files(release):
        if path.with_name(path.name.replace("modeling_", "modular_", 1)).is_file():
            continue
        drafts.append(draft_one(path, release))
        print(f"| {' | '.join(draft_row(path, drafts[-1]))} |", flush=True)
    made = [one for one in drafts if isinstance(one, Draft)]
    short = []
    for kind in ("yes", UNREAD):
        drafted = [one for one in made if result_of(one) == kind]
        half = [one for one in drafted if one.lines * 2 <= one.model_lines]
        short += half
        circular = sum(bool(one.circular) for one in half)
        print(
            f"\n{kind}: {len(drafted)} of {len(drafts)} drafts, {len(half)} in half the model's "
            f"lines, {circular} of these circular."
        )
    models = modeling_files(release)[0][1].parent.parent
    together = take_together(short, read_lineage(models))
    print(f"\n{together} in half the model's lines can be taken together.")
    return 0


def draft_one(path: Path, release: Release) -> Draft | str:
    """The draft of one model, or why there is none."""
    try:
        return draft_model(path, release, Settings())
    except PatchgenError as error:
        return error.problem.what


def draft_row(path: Path, draft: Draft | str) -> Iterator[str]:
    """The cells of one model."""
    yield path.stem.removeprefix("modeling_")
    if isinstance(draft, str):
        yield from [draft, "no", "", "", ""]
        return
    marks = dict.fromkeys(draft.circular, " (circular)")
    yield ", ".join(f"{one.partition('.')[0]}{marks.get(one, '')}" for one in draft.parents)
    yield result_of(draft)
    yield str(draft.lines)
    yield str(draft.model_lines)
    yield f"{draft.share:.0%}"


def result_of(draft: Draft) -> str:
    """Whether a draft gives its model again."""
    return "yes" if draft.proof.holds else UNREAD if draft.is_whole else "no"


def take_together(drafts: Iterable[Draft], lineage: Mapping[str, Collection[str]]) -> int:
    """How many drafts no model would derive from itself with; the shortest are taken first."""
    taken = dict(lineage)
    for draft in sorted(drafts, key=lambda one: one.share):
        module = f"{draft.path.parent.name}.{draft.path.stem}"
        if not find_heirs(module, taken) & {*draft.parents}:
            taken[module] = draft.parents
    return len(taken) - len(lineage)


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
