"""`patchgen convert -`: a modular file on stdin, its outputs on stdout, for editors.  The project is not touched."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from patchgen.cli.printing import make_style
from patchgen.cli.report import FORMATS, Page, exit_code
from patchgen.cli.session import Request, open_project
from patchgen.project.batch.group import flatten_group
from patchgen.project.files import Project, make_modular


def convert_stdin(
    name: str | None, package_root: str | None, out: str | None, allow_bidi: bool, **rest: Any
) -> int:
    """Flatten the text on stdin as if it stood in the file `name`; several outputs follow one another."""
    if name is None:
        raise click.UsageError("- needs --stdin-filename: parents are found from the file's place")
    project = open_project(Request((name,), out, package_root, allow_bidi=allow_bidi))
    place = Path.cwd() / name
    with tempfile.TemporaryDirectory(prefix="patchgen-") as folder:
        # The same place below another top: relative imports and messages are those of the real file.
        inner = project.shown(place.parent.resolve() / place.name).lstrip("/")
        staged = Path(folder).resolve() / inner
        staged.parent.mkdir(parents=True)
        staged.write_bytes(sys.stdin.buffer.read())
        outcome = next(
            flatten_group(_moved(project, Path(folder)), "strict", [make_modular(project, staged)])
        )
    sys.stderr.write(
        FORMATS[make_style(False, False, "text").form](Page(findings=outcome.problems))
    )
    code = "".join((outcome.texts or {})[made.name] for made in outcome.made)
    sys.stdout.buffer.write(code.encode("utf-8"))  # as in a file, whatever the locale
    return exit_code(outcome.problems)


def _moved(project: Project, folder: Path) -> Project:
    """`project` as seen from `folder`, with its real home among the roots."""
    config = project.config
    roots = (str(project.home), *(str(project.home / root) for root in config.roots))
    return replace(project, config=replace(config, home=folder.resolve(), roots=roots))
