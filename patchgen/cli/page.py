"""`patchgen page`: write the pages of variants, and say where their lines come from."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patchgen.cli.progress import bar
from patchgen.cli.report import exit_code, table
from patchgen.cli.session import Request, Session, open_session
from patchgen.errors import PatchgenError, did_you_mean, problems_of
from patchgen.project.disk.write import replace_file
from patchgen.project.files import Modular

if TYPE_CHECKING:
    from patchgen.page.trace import Variant
    from patchgen.page.verdicts import Verdict

_PACKAGES = {"jinja2": "Jinja2", "pygments": "Pygments"}


def write_pages(
    names: Sequence[str], folder: str, report: str | None, package_root: str | None
) -> int:
    """Write the pages of `names` and their index; 1 if a check of one of them fails."""
    require_page_packages()
    from patchgen.page.render import render_index, render_page
    from patchgen.page.trace import trace_variant
    from patchgen.page.verdicts import judge_models, judge_outputs, read_report

    session = _open(names, package_root)
    project, modulars = session.project, session.found.modulars
    checked = session.check()
    verified = read_report(None if report is None else Path(report), project.home)
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
                rows.append((variant, verdicts))
                html = render_page(variant, verdicts)
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
    paths = [name for name in names if Path(name).exists() or name.endswith(".py")]
    variants = [name for name in names if name not in paths]
    if not variants:
        return open_session(Request(tuple(paths), package_root=package_root))
    every = open_session(Request(package_root=package_root))
    chosen = list(_find_variants(variants, every.found.modulars))
    if paths:
        chosen += open_session(Request(tuple(paths), package_root=package_root)).found.modulars
    found = replace(every.found, modulars=tuple(dict.fromkeys(chosen)), folders=())
    return replace(every, found=found)


def _find_variants(names: Sequence[str], modulars: Sequence[Modular]) -> Iterator[Modular]:
    known = {modular.path.stem.removeprefix("modular_"): modular for modular in modulars}
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or "`patchgen list` shows them"
            raise click.UsageError(f"no variant {name!r}: {hint}")
        yield known[name]


def _table(variants: Sequence[Variant]) -> str:
    """How many lines of each variant come from where; every line is counted once."""
    rows = [(v.name, sum(v.counts.values()), *v.counts.values()) for v in variants]
    total = ("total", *(sum(column) for column in zip(*(row[1:] for row in rows), strict=True)))
    heads = ("variant", "lines", "parent's", "declared", "rewritten", "made", "blank")
    shown = [tuple(str(cell) for cell in row) for row in [*rows, total]]
    return table(heads, shown)
