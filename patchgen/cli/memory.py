"""`patchgen memory`: predict the memory of a training step, measure it, print and draw it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patchgen.project.write import replace_file
from patchgen.syntax.errors import Location, PatchgenError

if TYPE_CHECKING:
    from patchgen.training.memory.figures import Figures
    from patchgen.training.memory.layout import Layout
    from patchgen.training.memory.predict import StepTrace
    from patchgen.training.memory.setup import Setup
    from patchgen.training.memory.target import Choice, Target


def memory(
    name: str,
    *,
    head: str | None,
    config: str | None,
    tiny: bool,
    changes: tuple[str, ...],
    card: str | None,
    measure: bool,
    predict: bool,
    figure: str | None,
    form: str,
    device: str | None,
    engine: str | None,
    ranks: int | None,
    length: int | None,
    **setup: Any,
) -> int:
    """Print the memory of a training step of one model; the exit code."""
    from patchgen.training.memory.chart import as_svg
    from patchgen.training.memory.fits import check_device, largest_batch, parse_size
    from patchgen.training.memory.report import as_json, as_markdown, as_text, make_report
    from patchgen.training.memory.setup import Setup
    from patchgen.training.memory.target import Choice, default_length, find_target
    from patchgen.training.memory.zero import predict as predict_trace
    from patchgen.verify.report.pages import find_best_device

    if not predict and (not measure or card or figure):
        raise click.UsageError(
            "--no-predict needs --measure: --card and --figure show the prediction"
        )
    try:
        choice = Choice(head, config, tiny, tuple(_change(each) for each in changes))
        target = find_target(name, choice)
        place = device or ("cuda" if card else find_best_device())
        if measure:
            check_device(place)
        tokens = length or default_length(target.config)
        wanted = Setup(**setup, length=tokens, device=place, layout=_layout(engine, ranks))
        room = parse_size(card) if card else 0
        most = largest_batch(target, wanted, room) if room else 0
        trace = predict_trace(target, wanted) if predict else None
        found = _measured(target, choice, wanted, trace) if measure else None
    except ValueError as error:
        # transformers and torch name the value that they refuse.
        raise PatchgenError("PG825", Location(name), " ".join(str(error).split())) from error
    report = replace(
        make_report(trace, found, name, target.model_class.__name__, wanted), card=room, most=most
    )
    write = {"text": as_text, "json": as_json, "markdown": as_markdown}[form]
    sys.stdout.write(write(report))
    if figure and trace is not None:
        replace_file(Path(figure), as_svg(trace, room).encode())
    return 0


def _layout(engine: str | None, ranks: int | None) -> Layout | None:
    from patchgen.training.memory.layout import Layout

    if (engine is None) != (ranks is None):
        raise click.UsageError("--engine and --ranks need each other: --engine fsdp2 --ranks 8")
    return Layout(engine, ranks) if engine is not None and ranks is not None else None


def _measured(target: Target, choice: Choice, setup: Setup, trace: StepTrace | None) -> Figures:
    from patchgen.training.memory.figures import reference_figures, summarize
    from patchgen.training.memory.fits import check_free_memory
    from patchgen.training.memory.measure import measure_step

    if trace is not None:
        here = setup.layout.ranks if setup.layout is not None and setup.device == "cpu" else 1
        check_free_memory(target, here * summarize(trace).peak, setup.device)
    if setup.layout is not None:
        from patchgen.training.memory.spawn import Job, measure_on_ranks

        found = measure_on_ranks([Job(target.name, choice, setup)], setup.layout.ranks)[0]
        return reference_figures(found, setup.layout)
    return measure_step(target, setup)


def _change(text: str) -> tuple[str, Any]:
    """Split NAME=VALUE; the value is read as JSON if it is JSON, else as text."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.UsageError(f"--set takes NAME=VALUE, not {text}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
