"""`patchgen bench`: runs the cases, keeps their results, writes the page, and says what was wrong."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchgen.errors import Location, PatchgenError

if TYPE_CHECKING:
    from patchgen.training.bench.case import Case
    from patchgen.training.bench.record import Record
    from patchgen.training.bench.result import Result

# What a full disk, or one that takes nothing, is called; a file that may not be so large is one to whoever writes it.
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
    """Run what is asked for; 1 where something is wrong."""
    _insist_on_models()
    if look:
        if ids or only or compiled or tiny or again or seconds is not None or table != "matrix":
            raise click.UsageError("--look runs nothing: it takes --device alone")
        return _look(device)
    from patchgen.training.bench.machine import device_name, versions
    from patchgen.training.bench.record import Unreadable, resume_record, start_record
    from patchgen.training.bench.run import SECONDS, Wanted, run
    from patchgen.training.bench.sets import compiled_of, wanted_cases

    device = _device(device, tiny)
    if compiled:
        only = (*only, *compiled_of(wanted_cases(table, ids, only)))
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
            "--again begins anew in its place; --folder names another",
        ) from error
    jobs = min(JOBS, len(cases))
    wanted = Wanted(table, device, tiny, seconds or SECONDS, tuple(only), jobs=jobs, again=again)
    with _told_where_to_go_on(path):
        try:
            run(cases, wanted, record, _progress)
        finally:
            _write_pages(record, path, table, tiny)
    return _say(record, cases, path)


@contextlib.contextmanager
def _told_where_to_go_on(path: Path) -> Iterator[None]:
    """A disk that takes no more is a PatchgenError: the record in it is that of the result before."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        hint = "what was measured before is in it: make room, and run the same command again"
        raise PatchgenError(
            "PG910", Location(str(path)), f"cannot be written: {error.strerror}", hint
        ) from error


def _insist_on_models() -> None:
    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            raise click.UsageError(
                f"bench runs models and needs {package}: pip install 'patchgen[models]'"
            )


def _device(wanted: str | None, tiny: bool) -> str:
    """Where models run: `wanted`, or the CPU for tiny ones, or the GPU.  A usage error where that is not there."""
    from patchgen.training.bench.machine import has_gpu

    device = wanted or ("cpu" if tiny else "cuda")
    _insist_on_device(device)
    if device == "cpu" and not tiny:
        raise click.UsageError("times of a CPU say nothing: --tiny checks there, without timing")
    if device == "cuda" and not has_gpu():
        raise click.UsageError(
            "torch finds no CUDA device here: --tiny checks on the CPU, without timing"
        )
    return device


def _insist_on_device(device: str) -> None:
    """A usage error for any device but the first: clocks, peaks and caches are asked of that one."""
    if device not in ("cpu", "cuda"):
        other = "; CUDA_VISIBLE_DEVICES chooses among GPUs" if device.startswith("cuda:") else ""
        raise click.UsageError(f"--device {device}: bench knows cpu and cuda{other}")


def _look(device: str | None) -> int:
    from patchgen.training.bench.look import look
    from patchgen.training.bench.machine import has_gpu

    device = device or ("cuda" if has_gpu() else "cpu")
    _insist_on_device(device)
    if device == "cuda" and not has_gpu():
        raise click.UsageError(
            "torch finds no CUDA device here: --look --device cpu shows this machine's CPU"
        )
    found = look(device)
    click.echo(json.dumps(found, indent=1))
    return 0


def _progress(case: str, entry: str, result: Result) -> None:
    note = f"  {result.note}" if result.note else ""
    sys.stderr.write(f"{case:9} {entry:48} {result.status}{note}\n")


def _write_pages(record: Record, path: Path, table: str, tiny: bool) -> None:
    """All that the record has, whatever this run was for."""
    from patchgen.project.disk.write import replace_file
    from patchgen.training.bench.page import as_markdown, pictures
    from patchgen.training.bench.sets import wanted_cases

    if not record.cases:
        return
    cases = wanted_cases(table, tiny=tiny)
    replace_file(path.with_suffix(".md"), as_markdown(record, cases).encode())
    for name, picture in pictures(record, cases).items():
        replace_file(path.with_name(f"{path.stem}-{name}.svg"), picture.encode())


def _say(record: Record, cases: Sequence[Case], path: Path) -> int:
    """What is wrong, a line each, and where the rest stands; the exit code."""
    from patchgen.training.bench.claims import broken_claims

    counted: dict[str, int] = {}
    wrong = []
    for case in cases:
        results = record.results(case.id)
        if fault := record.fault(case.id):
            wrong.append(f"{case.id}: could not be begun: {fault}")
        for name, result in results.items():
            counted[result.status] = counted.get(result.status, 0) + 1
            if result.status in ("wrong", "failed"):
                wrong.append(f"{case.id}: {name}: {result.status}: {result.note}")
        wrong += [
            f"{case.id}: {name}: {reason}" for name, reason in broken_claims(case, results).items()
        ]
    click.echo(
        "\n".join([*wrong, ", ".join(f"{number} {status}" for status, number in counted.items())])
    )
    click.echo(f"{path} and {path.with_suffix('.md').name}")
    return int(bool(wrong))
