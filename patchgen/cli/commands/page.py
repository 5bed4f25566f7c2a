"""`patchgen page`: write the pages of variants, and say where their lines come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchgen import disk
from patchgen.cli import terminal
from patchgen.cli.options import NEW_FOLDER, names_or_paths, option, package_root, require
from patchgen.cli.report import exit_code, table
from patchgen.cli.session import Request, open_session
from patchgen.cli.terminal import bar
from patchgen.syntax.errors import PatchgenError, problems_of

if TYPE_CHECKING:
    from patchgen.pages.trace import Variant
    from patchgen.pages.verdicts import Verdict


@click.command()
@names_or_paths
@option("--out folder DIR", "Write the pages into DIR.", type=NEW_FOLDER, required=True)
@option(
    "--report DIR",
    "Show what `patchgen verify --out DIR` found; default: docs/parity, if it is there.",
    type=click.Path(exists=True, file_okay=False),
)
@package_root
def page(names: tuple[str, ...], folder: str, report: str | None, package_root: str | None) -> int:
    """Writes one HTML file for each variant, and index.html.  Each file works alone, and without a
    network.  The default is every variant of the project.  Exit code 1: a modular file gives no
    output, or an output is not up to date.

    \b
    Example:
      patchgen page mpnet_sdpa_checkpoint --out pages
    """
    require("Jinja2 Pygments", "a page", "page")
    from patchgen.pages.render import render_index, render_page
    from patchgen.pages.trace import trace_variant
    from patchgen.pages.verdicts import judge_variant, read_report

    session = open_session(Request(names, package_root=package_root))
    project = session.project
    modulars = session.selection.modulars
    checked = session.check()
    verified = read_report(None if report is None else Path(report), project.home)
    pages = Path(folder)
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
                verdicts = judge_variant(variant, checked, verified, project.home)
                rows.append((variant, verdicts))
                html = render_page(variant, verdicts)
                disk.write(pages / f"{variant.name}.html", html, pages)
            advance(1)
    disk.write(pages / "index.html", render_index(rows), pages)
    if rows:
        terminal.write(_table([variant for variant, _ in rows]))
    terminal.say(f"wrote {pages / 'index.html'}")
    for problem in sorted(set(problems)):
        terminal.say(str(problem), err=True)
    return exit_code(problems)


def _table(variants: Sequence[Variant]) -> str:
    """How many lines of each variant come from where; every line is counted once."""
    counts = {}
    for variant in variants:
        kinds = variant.counts.values()
        counts[variant.name] = [sum(kinds), *kinds]
    counts["total"] = [sum(column) for column in zip(*counts.values(), strict=True)]
    rows = []
    for name, row in counts.items():
        cells = [f"{count:,}" for count in row]
        rows.append((name, *cells))
    heads = ("variant", "lines", "parent's", "declared", "rewritten", "patchgen's", "blank")
    return table(heads, rows)
