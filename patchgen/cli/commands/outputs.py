"""The commands that make and check outputs: convert, check, diff, list and lint."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from patchgen.cli.options import common, option, reporting, text_or_json

if TYPE_CHECKING:
    from patchgen.cli.printing import Style
    from patchgen.cli.session import Session


@click.command()
@common
@reporting
@option("--force", "Replace files that patchgen did not write.")
@option("--accept", "Accept the changed parents of overrides; PATHS may be variants.")
@option("--stdin-filename FILE", "Read stdin (PATHS is -) as if it were the text of FILE.")
def convert(
    force: bool,
    accept: bool,
    stdin_filename: str | None,
    **rest: Any,
) -> int:
    """patchgen.lock records what each file was made from.  patchgen.overrides.toml keeps the
    parent's text of each method that you override.  Commit both.

    \b
    Example:
      patchgen convert modular/llama
    """
    from patchgen.cli import printing

    if rest["paths"] == ("-",):
        from patchgen.cli.stdin import convert_stdin

        return convert_stdin(stdin_filename, **rest)
    if accept:
        rest["paths"] = _find_variants(**rest)
    with _session(**rest) as session:
        written = session.convert(force=force, accept=accept)
    return printing.print_written(session.project, written, _style(**rest))


@click.command()
@common
@reporting
@option("--diff with_diff", "Print what would change.")
@option("--fix", "Write stale and missing outputs, remove orphaned ones.")
def check(with_diff: bool, fix: bool, **rest: Any) -> int:
    """A file is up to date if it is what its modular file gives now.  Without --fix, nothing is
    written.  Exit code 1: a file is not up to date, or a modular file is wrong.

    \b
    Example:
      patchgen check --diff
    """
    from patchgen.cli import printing

    if not fix:
        return _check(with_diff, **rest)
    with _session(**rest) as session:
        written = session.convert(remove=True)
    return printing.print_written(session.project, written, _style(**rest))


@click.command()
@common
@reporting
def diff(**rest: Any) -> int:
    """\b
    Example:
      patchgen diff modular/llama
    """
    return _check(True, **rest)


def _check(with_diff: bool, **rest: Any) -> int:
    from patchgen.cli import printing

    with _session(**rest) as session:
        report = session.check()
        drifts = session.drift(report)
    style = _style(**rest)
    return printing.print_checked(session.project, report, style, drifts, with_diff=with_diff)


@click.command(name="list")
@common
@text_or_json
def list_variants(form: str, **rest: Any) -> int:
    """\b
    declared  lines of code in the modular file, without docstrings and comments
    added     lines of the generated files that the parent lacks, without blank lines
    removed   lines of the parent that the generated files lack
    output    lines of the generated files

    A new model has no diff: `added` counts the lines that do not come from its parent, and
    `removed` is "-".  JSON also has the outputs, classes and parents.

    \b
    Example:
      patchgen list --output-format json
    """
    from patchgen.cli import listing

    with _session(**rest) as session:
        report = session.check()
    return listing.print_variants(report, form)


@click.command()
@common
@reporting
def lint(**rest: Any) -> int:
    """Also what converts and could be said with less.  Generated files are not looked at.

    \b
    Example:
      patchgen lint modular/llama
    """
    from patchgen.cli import printing

    with _session(**rest) as session:
        outcomes = session.lint()
    return printing.print_linted(session.project, session.found, outcomes, _style(**rest))


@contextlib.contextmanager
def _session(
    paths: tuple[str, ...],
    package_root: str | None,
    out: str | None,
    jobs: int,
    no_cache: bool,
    allow_bidi: bool,
    quiet: bool = False,
    warnings_as_errors: bool = False,
    **_rest: Any,
) -> Iterator[Session]:
    """The session that the options ask for, with a progress bar while it is open."""
    from patchgen.cli.progress import bar
    from patchgen.cli.session import Request, open_session

    request = Request(paths, out, package_root, jobs, not no_cache, allow_bidi, warnings_as_errors)
    session = open_session(request)
    with bar(len(session.found.modulars), "flattening", quiet=quiet) as advance:
        yield replace(session, progress=advance)


def _find_variants(
    paths: tuple[str, ...], package_root: str | None, out: str | None, **_rest: Any
) -> tuple[str, ...]:
    """The paths of the variants that `paths` name."""
    from patchgen.cli.session import Request, open_project
    from patchgen.cli.variants import find_variants

    if out is not None:
        raise click.UsageError("--accept is about the project's own outputs, not about --out")
    project = open_project(Request(package_root=package_root))
    return tuple(map(str, find_variants(project, paths)))


def _style(quiet: bool, verbose: bool, output_format: str | None, **_rest: Any) -> Style:
    from patchgen.cli.printing import make_style

    return make_style(quiet, verbose, output_format)
