"""Report where the strict profile would refuse a modular file of transformers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import Location, PatchgenError, Problem, problems_of
from patchgen.syntax.locate import Environment
from patchgen.upstream.lint.case import Case, Pair
from patchgen.upstream.lint.finding import finding
from patchgen.upstream.lint.inherited import inherited_class


def refusals(
    path: Path, env: Environment, settings: Settings, display_path: str
) -> Iterator[Problem]:
    """What the strict profile says of the whole file."""
    # Heavy, and not needed where files are found in the cache.
    from patchgen.compiler.flatten import flatten

    for problem in flatten(path, env, settings).problems:
        yield refusal(
            problem, display_path, Location(display_path, _line_of(path, problem.at.path), 1)
        )


def refusal(problem: Problem, display_path: str, fallback: Location) -> Problem:
    """`problem` as a finding; at `fallback` where it lies in another file."""
    here = problem.at.path == display_path and problem.at.line > 0
    elsewhere = "" if here else f" (at {problem.at})"
    what = f"Python's rules would refuse it: {problem.code} {problem.what}{elsewhere}"
    return replace(
        finding("PG701", problem.at if here else fallback, what, problem.hint), cause=problem
    )


def inherit(pair: Pair, case: Case) -> ast.ClassDef | tuple[Problem, ...] | None:
    """What `pair` would be by inheritance, or why the strict profile would not say.

    None where that is shipped.
    """
    try:
        return inherited_class(pair, case)
    except PatchgenError as error:
        return tuple(refusal(p, case.source.path, case.at(pair.block)) for p in problems_of(error))


def _line_of(path: Path, other: str) -> int:
    """The line on which the modular file imports from the file `other`.

    The first where it does not.
    """
    # The import is what the author of the modular file can look at.
    stem = Path(other).stem
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((n for n, line in enumerate(lines, 1) if f".{stem} import" in line), 1)
