"""Run the cases, or print what would run on a card.

python -m benchmarks.bench [CASE ...]        in a clone
"""

from __future__ import annotations

import contextlib
import errno
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchgen import disk
from patchgen.cli import terminal
from patchgen.cli.options import ABOVE_0, NEW_FOLDER, needs_models, option
from patchgen.cli.report import exit_code, table
from patchgen.syntax.errors import Location, PatchgenError, problems_of

if TYPE_CHECKING:
    from benchmarks.bench.cases import Case

# Errors of a full or failing disk, or of a limit on the size of files.
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}


@click.command()
@click.argument("ids", nargs=-1, metavar="[CASE]...")
@option(
    "--only NAME", "Only this entry or variant, and its baseline; may be repeated.", multiple=True
)
@option("--plan planned", "Only print what would run on --card, without a GPU.")
@option("--card NAME", "For --plan.", default="h100")
@option("--tiny", "Tiny models on the CPU: checked, not timed.")
@option("--folder DIR", "Where results and pages are.", default="bench", type=NEW_FOLDER)
@option("--seconds S", "Time for the whole run.", default=450.0, type=ABOVE_0)
@option("--again", "Measure what has a result already.")
@option("--page page_only", "Only write the page of --folder anew: it marks what is of older code.")
@needs_models()
def bench(
    ids: tuple[str, ...],
    *,
    only: tuple[str, ...],
    tiny: bool,
    folder: str,
    seconds: float,
    again: bool,
    planned: bool,
    card: str,
    page_only: bool,
) -> int:
    """Time variants on this GPU beside their alternatives.

    Each CASE is sized so that its baseline fits the card; docs/benchmarks.md describes them, and
    the default is all.  The same command continues an interrupted run.  Exit code 1: an entry
    failed or computed something wrong.

    \b
    Example:
      python -m benchmarks.bench --plan --card h200
      python -m benchmarks.bench --tiny
      python -m benchmarks.bench L1 B1 --seconds 500
    """
    from benchmarks.bench.cases import choose_cases

    cases = choose_cases(ids, only, tiny=tiny)
    if planned:
        return _print_plan(cases, card)

    from benchmarks.bench.page import as_markdown, draw
    from benchmarks.bench.run import has_gpu, open_record, read_record, run

    path = Path(folder) / f"bench{'-tiny' if tiny else ''}.json"
    every = choose_cases((), (), tiny=tiny)
    if page_only:
        page = as_markdown(read_record(path), every)
        disk.write(path.with_suffix(".md"), page, path.parent)
        return 0
    if not tiny and not has_gpu():
        hint = "--tiny checks on the CPU, without timing; --plan prints what fits a card"
        raise click.UsageError(f"torch finds no CUDA device here: {hint}")
    device = "cpu" if tiny else "cuda"
    disk.make_folder(path.parent)
    try:
        record = open_record(path, device, again=again)
    except (ValueError, KeyError) as error:
        hint = "--again replaces it; --folder names another place"
        raise PatchgenError("PG817", Location(str(path)), f"{error}", hint) from error
    with _explain_full_disk(path):
        try:
            limit = seconds * (10 if tiny else 1)  # a CPU is slow, and nothing is timed
            run(cases, device, record, only=only, seconds=limit, say=_say)
        finally:
            disk.write(path.with_suffix(".md"), as_markdown(record, every), path.parent)
            draw(record, every, path.parent)
    statuses = Counter(
        record.results.get(case.id, {}).get(entry.name, {"status": "no time"})["status"]
        for case in cases
        for entry in case.entries
    )
    terminal.say(", ".join(f"{number} {status}" for status, number in statuses.items()))
    terminal.say(f"{path} and {path.with_suffix('.md').name}")
    return int("wrong" in statuses or "failed" in statuses)


def _say(line: str) -> None:
    terminal.say(line, err=True)


def _print_plan(cases: Sequence[Case], card: str) -> int:
    """Print each entry with its rows and its predicted peak; 1 if a baseline does not fit."""
    from benchmarks.bench.plan import plan, room_of
    from patchgen.training.memory.report import format_size

    room = room_of(card)
    rows, fits = [], True
    for row in plan(cases, room):
        fits = fits and row.rows > 0
        size = "-" if row.peak is None else format_size(row.peak)
        most = "-" if row.most is None else str(row.most)
        rows.append((row.case.id, row.entry.name, str(row.rows * row.entry.times), size, most))
        _say(f"{row.case.id} {row.entry.name}")
    terminal.write(table(("case", "entry", "rows", "predicted peak", "most rows"), rows))
    terminal.say(f"{card}: {format_size(room)} to plan with; every baseline fits: {fits}")
    return int(not fits)


@contextlib.contextmanager
def _explain_full_disk(path: Path) -> Iterator[None]:
    """Turn an error of the disk into a PatchgenError: the results before it are saved."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        what = f"cannot be written: {error.strerror}"
        hint = "earlier results are saved: free some space and run the same command again"
        raise PatchgenError("PG910", Location(str(path)), what, hint) from error


def main(argv: Sequence[str]) -> int:
    """Run `python -m benchmarks.bench ARGV` and return the exit code."""
    try:
        code: int = bench.main([*argv], prog_name="benchmarks.bench", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except PatchgenError as error:
        problems = problems_of(error)
        terminal.say("\n".join(map(str, problems)), err=True)
        return exit_code(problems)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
