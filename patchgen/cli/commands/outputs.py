"""The commands that make and check outputs: convert, check, diff, list and lint.

What they do is imported when it is done: `--help` does without it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from patchgen.cli.options import common, option, reporting, text_or_json

if TYPE_CHECKING:
    from patchgen.cli.session import Session


@click.command()
@common
@reporting
@option("--force", "Replace files that patchgen did not write.")
@option("--accept", "Accept the changed parents of overrides.")
@option("--stdin-filename FILE", "Read stdin (PATHS is -) as if it were the text of FILE.")
def convert(force: bool, accept: bool, stdin_filename: str | None, **rest: Any) -> int:
    """patchgen.lock records what each file was made from.  patchgen.overrides.toml keeps the
    parent's text of each method that you override.  Commit both.

    \b
    Example:
      patchgen convert modular/llama
    """
    from patchgen.cli.report import print_written, style_of

    if rest["paths"] == ("-",):
        from patchgen.cli.stdin import convert_stdin

        return convert_stdin(stdin_filename, **rest)
    if accept and rest["out"] is not None:
        raise click.UsageError("--accept is about the project's own outputs, not about --out")
    with _session(**rest) as session:
        written = session.convert(force=force, accept=accept)
    return print_written(session.project, written, style_of(**rest))


@click.command()
@common
@reporting
@option("--diff with_diff", "Print what would change.")
@option("--lint", "Also say what converts and could be said with less; each finding fails.")
@option("--fix", "Write stale and missing outputs, remove orphaned ones.")
@option(
    "--base REF", "Take the configuration and the list of outputs from this commit; list changes."
)
def check(with_diff: bool, lint: bool, fix: bool, **rest: Any) -> int:
    """A file is up to date if it is what its modular file gives now.  Without --fix, nothing is
    written.  Exit code 1: a file is not up to date, or a modular file is wrong.

    \b
    Example:
      patchgen check --diff
    """
    from patchgen.cli.report import print_checked, print_written, style_of

    if fix and (lint or rest["base"] is not None):
        raise click.UsageError("--base and --lint are about checking only, not about --fix")
    style = style_of(**rest)
    with _session(**rest) as session:
        if fix:
            written = session.convert(remove=True)
        else:
            report = session.check()
            drifts = session.drift(report)
            linted = session.lint() if lint else ()
    if fix:
        return print_written(session.project, written, style)
    return print_checked(session.project, report, style, drifts, linted, with_diff=with_diff)


@click.command()
@common
@reporting
@click.pass_context
def diff(context: click.Context, /, **rest: Any) -> int:
    """\b
    Example:
      patchgen diff modular/llama
    """
    code: int = context.invoke(check, with_diff=True, lint=False, fix=False, base=None, **rest)
    return code


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
    from patchgen.cli.listing import print_variants

    with _session(**rest) as session:
        report = session.check()
    return print_variants(report, form)


@click.command()
@common
@reporting
def lint(**rest: Any) -> int:
    """Also what converts and could be said with less.  Generated files are not looked at.

    \b
    Example:
      patchgen lint modular/llama
    """
    from patchgen.cli.report import print_linted, style_of

    with _session(**rest) as session:
        outcomes = session.lint()
    return print_linted(session.project, session.selection, outcomes, style_of(**rest))


@contextlib.contextmanager
def _session(
    paths: tuple[str, ...],
    package_root: str | None,
    out: str | None,
    jobs: int,
    no_cache: bool,
    allow_bidi: bool,
    release: str | None,
    quiet: bool = False,
    warnings_as_errors: bool = False,
    base: str | None = None,
    **_rest: Any,
) -> Iterator[Session]:
    """The session that the options ask for, with a progress bar while it is open."""
    from patchgen.cli.session import Request, open_session
    from patchgen.cli.terminal import bar

    request = Request(
        paths, out, package_root, jobs, not no_cache, allow_bidi, warnings_as_errors, release, base
    )
    session = open_session(request)
    with bar(len(session.selection.modulars), "flattening", quiet=quiet) as advance:
        yield replace(session, progress=advance)
