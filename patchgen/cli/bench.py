"""`patchgen bench`: run the cases, save their results, write the page, print what is wrong."""

from __future__ import annotations

import contextlib
import errno
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchgen.syntax.errors import Location, PatchgenError

if TYPE_CHECKING:
    from patchgen.training.bench.case import Case
    from patchgen.training.bench.record import Record
    from patchgen.training.bench.result import Result

# Errors of a disk that is full or not writable, and of a file above the size limit.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES})
JOBS = 2  # processes for tiny models: more would spend their time importing


def bench(
    ids: Sequence[str],
    *,
    table: str,
    only: Sequence[str],
    compiled: bool,
    tiny: bool,
    device: str | None,
    folder: str,
    seconds: float | None,
    again: bool,
    look: bool,
) -> int:
    """Run the cases; 1 if an entry failed or is wrong."""
    if look:
        if ids or only or compiled or tiny or again or seconds is not None or table != "matrix":
            raise click.UsageError("--look runs nothing: it takes no option but --device")
        return _look(device)
    from patchgen.training.bench.machine import device_name, versions
    from patchgen.training.bench.record import Unreadable, resume_record, start_record
    from patchgen.training.bench.run import SECONDS, Wanted, run
    from patchgen.training.bench.sets import names_of_compiled, wanted_cases

    device = _device(device, tiny)
    if compiled:
        only = (*only, *names_of_compiled(wanted_cases(table, ids, only)))
    cases = wanted_cases(table, ids, only, tiny=tiny)
    path = Path(folder) / f"bench-{table}{'-tiny' if tiny else ''}.json"
    made = {"device": device_name(device), "tiny": tiny, "versions": versions()}
    try:
        record = start_record(path, made) if again else resume_record(path, made)
    except Unreadable as error:
        raise PatchgenError(
            "PG817",
            Location(str(path)),
            str(error),
            "--again replaces it; --folder names another place",
        ) from error
    jobs = min(JOBS, len(cases))
    wanted = Wanted(table, device, tiny, seconds or SECONDS, tuple(only), jobs=jobs, again=again)
    with _explain_full_disk(path):
        try:
            run(cases, wanted, record, _progress)
        finally:
            _write_pages(record, path, table, tiny)
    return _print_summary(record, cases, path)


@contextlib.contextmanager
def _explain_full_disk(path: Path) -> Iterator[None]:
    """Turn an error of the disk into a PatchgenError: the results before it are saved."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        hint = "earlier results are saved: free some space and run the same command again"
        raise PatchgenError(
            "PG910", Location(str(path)), f"cannot be written: {error.strerror}", hint
        ) from error


def _device(wanted: str | None, tiny: bool) -> str:
    """Where models run; a usage error if there is no such device."""
    from patchgen.training.bench.machine import has_gpu

    device = wanted or ("cpu" if tiny else "cuda")
    _insist_on_device(device)
    if device == "cpu" and not tiny:
        raise click.UsageError("bench does not time on a CPU: --tiny checks there, without timing")
    if device == "cuda" and not has_gpu():
        raise click.UsageError(
            "torch finds no CUDA device here: --tiny checks on the CPU, without timing"
        )
    return device


def _insist_on_device(device: str) -> None:
    """A usage error for any device but the CPU and the first GPU, whose clocks are read."""
    if device not in ("cpu", "cuda"):
        other = "; CUDA_VISIBLE_DEVICES chooses among GPUs" if device.startswith("cuda:") else ""
        raise click.UsageError(f"--device {device}: bench runs on cpu or cuda{other}")


def _look(device: str | None) -> int:
    from patchgen.training.bench.look import look
    from patchgen.training.bench.machine import has_gpu

    device = device or ("cuda" if has_gpu() else "cpu")
    _insist_on_device(device)
    if device == "cuda" and not has_gpu():
        raise click.UsageError("torch finds no CUDA device here: --look --device cpu shows the CPU")
    found = look(device)
    click.echo(json.dumps(found, indent=1))
    return 0


def _progress(case: str, entry: str, result: Result) -> None:
    note = f"  {result.note}" if result.note else ""
    sys.stderr.write(f"{case:9} {entry:48} {result.status}{note}\n")


def _write_pages(record: Record, path: Path, table: str, tiny: bool) -> None:
    """Write the page of everything that is recorded, not only of this run."""
    from patchgen.project.write import replace_file
    from patchgen.training.bench.page import as_markdown
    from patchgen.training.bench.pictures import pictures
    from patchgen.training.bench.sets import wanted_cases

    if not record.cases:
        return
    cases = wanted_cases(table, tiny=tiny)
    replace_file(path.with_suffix(".md"), as_markdown(record, cases).encode())
    for name, picture in pictures(record, cases).items():
        replace_file(path.with_name(f"{path.stem}-{name}.svg"), picture.encode())


def _print_summary(record: Record, cases: Sequence[Case], path: Path) -> int:
    """Print a line for each problem, and where the results are; the exit code."""
    from patchgen.training.bench.checks import failed_checks

    counted: dict[str, int] = {}
    wrong = []
    for case in cases:
        results = record.results(case.id)
        if fault := record.fault(case.id):
            wrong.append(f"{case.id}: could not be set up: {fault}")
        for name, result in results.items():
            counted[result.status] = counted.get(result.status, 0) + 1
            if result.status in ("wrong", "failed"):
                wrong.append(f"{case.id}: {name}: {result.status}: {result.note}")
        for name, reason in failed_checks(case, results).items():
            wrong.append(f"{case.id}: {name}: {reason}")
    totals = ", ".join(f"{number} {status}" for status, number in counted.items())
    click.echo("\n".join([*wrong, totals]))
    click.echo(f"{path} and {path.with_suffix('.md').name}")
    return int(bool(wrong))
