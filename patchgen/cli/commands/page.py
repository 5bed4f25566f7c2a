"""`patchgen page`: write the pages of variants, and say where their lines come from."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchgen.cli.options import NEW_FOLDER, names_or_paths, option, package_root
from patchgen.cli.progress import bar
from patchgen.cli.report import exit_code, table
from patchgen.cli.session import Request, Session, open_project, open_session
from patchgen.cli.variants import find_variants
from patchgen.project.write import replace_file
from patchgen.syntax.errors import PatchgenError, problems_of

if TYPE_CHECKING:
    from patchgen.pages.trace import Variant
    from patchgen.pages.verdicts import Verdict

_PACKAGES = {"jinja2": "Jinja2", "pygments": "Pygments"}


@click.command()
@names_or_paths
@option("--out folder DIR", "Write the pages into DIR.", type=NEW_FOLDER, required=True)
@option(
    "--report DIR",
    "Show what `patchgen verify --report DIR` found; default: docs/parity, if it is there.",
    type=click.Path(exists=True, file_okay=False),
)
@option(
    "--survive survey FILE.json",
    "Show what `patchgen survive --output-format json` printed into FILE.json.",
    type=click.Path(exists=True, dir_okay=False),
)
@package_root
def page(
    names: tuple[str, ...],
    folder: str,
    report: str | None,
    survey: str | None,
    package_root: str | None,
) -> int:
    """Writes one HTML file for each variant, and index.html.  Each file works alone, and without a
    network.  The default is every variant of the project.  Exit code 1: a modular file gives no
    output, or an output is not up to date.

    \b
    Example:
      patchgen page mpnet_sdpa_checkpoint --out pages
    """
    require_page_packages()
    from patchgen.pages.render import render_index, render_page
    from patchgen.pages.trace import trace_variant
    from patchgen.pages.verdicts import (
        judge_gains,
        judge_models,
        judge_outputs,
        judge_releases,
        read_report,
        read_survey,
    )

    session = _open(names, package_root)
    project, modulars = session.project, session.found.modulars
    checked = session.check()
    verified = read_report(None if report is None else Path(report), project.home)
    survived = read_survey(None if survey is None else Path(survey))
    pages = Path(folder)
    pages.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[Variant, list[Verdict]]] = []
    problems = list(checked.findings)
    with bar(len(modulars), "writing pages") as advance:
        for modular in modulars:
            try:
                env = project.environment()
                variant = trace_variant(modular.path, env, project.config.settings)
            # The other variants have their pages all the same.
            except PatchgenError as error:
                problems += problems_of(error)
            else:
                verdicts = [
                    judge_outputs(checked, variant.modular),
                    judge_models(verified, variant.name),
                ]
                gains = judge_gains(project.home, variant.name)
                if gains is not None:
                    verdicts.append(gains)
                if survived:
                    verdicts.append(judge_releases(survived, variant.name))
                rows.append((variant, verdicts))
                html = render_page(variant, verdicts, has_index=True)
                replace_file(pages / f"{variant.name}.html", html.encode())
            advance(1)
    replace_file(pages / "index.html", render_index(rows).encode())
    if rows:
        click.echo(_table([variant for variant, _ in rows]), nl=False)
    click.echo(f"wrote {pages / 'index.html'}")
    for problem in sorted(set(problems)):
        click.echo(str(problem), err=True)
    return exit_code(problems)


def require_page_packages() -> None:
    """Raise a usage error if a library that writes pages is missing."""
    for package, name in _PACKAGES.items():
        if importlib.util.find_spec(package) is None:
            install = "pip install 'patchgen[page]'"
            raise click.UsageError(f"a page is written with {name}, which is missing: {install}")


def _open(names: Sequence[str], package_root: str | None) -> Session:
    """The session on the modular files that `names` are, or are the variants of."""
    paths = tuple(name for name in names if Path(name).exists())
    project = open_project(Request(paths, package_root=package_root))
    chosen = tuple(str(path) for path in find_variants(project, names))
    return open_session(Request(chosen, package_root=package_root))


def _table(variants: Sequence[Variant]) -> str:
    """How many lines of each variant come from where; every line is counted once."""
    rows = [(v.name, sum(v.counts.values()), *v.counts.values()) for v in variants]
    total = ("total", *(sum(column) for column in zip(*(row[1:] for row in rows), strict=True)))
    heads = ("variant", "lines", "parent's", "declared", "rewritten", "patchgen's", "blank")
    cells = [(str(name), *(f"{count:,}" for count in counts)) for name, *counts in [*rows, total]]
    return table(heads, cells)
