"""`patchgen convert -`, for editors: a modular file on stdin, its outputs on stdout.

The project is not changed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from patchgen.cli.report import Page, as_text, exit_code
from patchgen.cli.session import Request, open_project
from patchgen.project.cache import Cache
from patchgen.project.files import STRICT, Project, make_modular
from patchgen.project.flattening import flatten_group
from patchgen.project.outcome import with_warnings_as_errors


def convert_stdin(
    name: str | None,
    package_root: str | None,
    out: str | None,
    allow_bidi: bool,
    warnings_as_errors: bool = False,
    **rest: Any,
) -> int:
    """Flatten the text on stdin as if it were in the file `name`; print its outputs in order."""
    if name is None:
        raise click.UsageError("- needs --stdin-filename: parents are found from the file's path")
    project = open_project(Request((name,), out, package_root, allow_bidi=allow_bidi))
    place = Path.cwd() / name
    with staged(project, place, sys.stdin.buffer.read()) as (moved, copy):
        modular = make_modular(project, copy)
        (outcome,) = flatten_group(Cache(moved, on=False), STRICT, [modular])
    if warnings_as_errors or project.config.warnings_as_errors:
        outcome = with_warnings_as_errors(outcome)
    sys.stderr.write(as_text(Page(findings=outcome.problems)))
    code = "".join((outcome.texts or {})[output.name] for output in outcome.outputs)
    sys.stdout.buffer.write(code.encode("utf-8"))  # UTF-8 whatever the locale, as in a file
    return exit_code(outcome.problems)


@contextmanager
def staged(project: Project, place: Path, data: bytes) -> Iterator[tuple[Project, Path]]:
    """`data` as if it were in the file `place`: the project that has it, and its path there."""
    with tempfile.TemporaryDirectory(prefix="patchgen-") as folder:
        # The same path below another top, so that relative imports and messages stay the same.
        inner = project.display_path(place.parent.resolve() / place.name).lstrip("/")
        copy = Path(folder).resolve() / inner
        copy.parent.mkdir(parents=True)
        copy.write_bytes(data)
        yield _moved(project, Path(folder)), copy


def _moved(project: Project, folder: Path) -> Project:
    """`project` with `folder` as its home, and its real home among the roots."""
    config = project.config
    roots = (str(project.home), *(str(project.home / root) for root in config.roots))
    return replace(project, config=replace(config, home=folder.resolve(), roots=roots))
