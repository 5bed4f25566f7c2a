"""`patchgen convert -`, for editors: a modular file on stdin, its outputs on stdout.

The project is not changed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from patchgen import disk
from patchgen.cli import terminal
from patchgen.cli.report import exit_code
from patchgen.cli.session import Request, open_project
from patchgen.project.cache import Cache
from patchgen.project.files import STRICT, Project, make_modular
from patchgen.project.flattening import flatten_group
from patchgen.project.outcome import with_warnings_as_errors
from patchgen.project.parents import require_release


def convert_stdin(
    name: str | None,
    package_root: str | None,
    out: str | None,
    allow_bidi: bool,
    warnings_as_errors: bool = False,
    release: str | None = None,
    **_rest: Any,
) -> int:
    """Flatten the text on stdin as if it were in the file `name`; print its outputs in order."""
    if name is None:
        raise click.UsageError("- needs --stdin-filename: parents are found from the file's path")
    request = Request((name,), out, package_root, allow_bidi=allow_bidi, release=release)
    project = open_project(request)
    with staged(project, Path.cwd() / name, sys.stdin.buffer.read()) as (moved, copy):
        modular = make_modular(project, copy)
        outcomes = tuple(flatten_group(Cache(moved, on=False), STRICT, [modular]))
        (outcome,) = outcomes if release is None else require_release(moved, outcomes)
    if warnings_as_errors or project.config.warnings_as_errors:
        outcome = with_warnings_as_errors(outcome)
    terminal.write("".join(f"{problem}\n" for problem in outcome.problems), err=True)
    terminal.write_code("".join((outcome.texts or {})[o.name] for o in outcome.outputs))
    return exit_code(outcome.problems)


@contextmanager
def staged(project: Project, path: Path, data: bytes) -> Iterator[tuple[Project, Path]]:
    """`data` as if it were in the file `path`: the project that has it, and its path there."""
    with disk.scratch() as home:
        # The same path below another top, so that relative imports and messages stay the same.
        copy = home / project.display_path(path.parent.resolve() / path.name).lstrip("/")
        disk.write(copy, data, home, lasting=False)
        # The real home is among the roots.
        roots = (str(project.home), *(str(project.home / root) for root in project.config.roots))
        yield replace(project, config=replace(project.config, home=home, roots=roots)), copy
