"""`patchgen bench`: runs the cases, keeps their results, writes the page, and says what was wrong."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

import click


def bench(
    ids: Sequence[str],
    *,
    table: str,
    only: Sequence[str],
    tiny: bool,
    device: str | None,
    folder: str,
    seconds: float | None,
    again: bool,
) -> int:
    """Run what is asked for; 1 where something is wrong."""
    _insist_on_models()
    from patchgen.bench.machine import device_name, versions
    from patchgen.bench.record import Unreadable, taken_up
    from patchgen.bench.result import Result
    from patchgen.bench.run import Wanted, run
    from patchgen.bench.sets import wanted_cases
    from patchgen.lab.report import best_device

    device = device or ("cpu" if tiny else best_device())
    if device == "cpu" and not tiny:
        raise click.UsageError("there is no CUDA device, and times of a CPU say nothing: --tiny checks without timing")
    try:
        cases = wanted_cases(table, ids, only, tiny=tiny)
    except LookupError as error:
        raise click.UsageError(str(error.args[0])) from error
    path = Path(folder) / f"{table}{'-tiny' if tiny else ''}.json"
    made = {"device": device_name(device), "tiny": tiny, "versions": versions()}
    if again:
        path.unlink(missing_ok=True)
    try:
        record = taken_up(path, made)
    except Unreadable as error:
        raise click.UsageError(f"{error}; --again begins anew") from error

    def progress(case: str, contestant: str, result: Result) -> None:
        sys.stderr.write(f"{case:10} {contestant:44} {result.status} {result.note}\n")

    run(cases, Wanted(table, device, tiny, seconds or 440.0, tuple(only)), record, progress)
    return int(any(r.status in ("wrong", "failed") for case in cases for r in record.results(case.id).values()))


def _insist_on_models() -> None:
    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            raise click.UsageError(f"bench runs models and needs {package}: pip install 'patchgen[models]'")
