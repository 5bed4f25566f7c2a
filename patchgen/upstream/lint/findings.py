"""All that lint says of one modular file of transformers, each thing once.

A quirk that has a name of its own takes the place of the plain difference that it makes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from patchgen.compiler.flat import Flattened
from patchgen.compiler.settings import Settings
from patchgen.errors import PatchgenError, Problem, problems_of
from patchgen.syntax.locate import Environment
from patchgen.upstream.files import Files
from patchgen.upstream.lint.case import Case, Pair, make_case
from patchgen.upstream.lint.choices import other_choices
from patchgen.upstream.lint.compare import differences
from patchgen.upstream.lint.dangling import dangling_names
from patchgen.upstream.lint.deduplicate import deduplicate
from patchgen.upstream.lint.dropped import dropped_statements
from patchgen.upstream.lint.finding import finding
from patchgen.upstream.lint.leaks import leaks
from patchgen.upstream.lint.overmatch import broken_words
from patchgen.upstream.lint.refusals import merged, refusals
from patchgen.upstream.lint.shapes import shared_names, unrecognised_removals


def lint_files(
    paths: Sequence[Path], env: Environment, settings: Settings, jobs: int = 1
) -> Iterator[Flattened]:
    """The findings of each of `paths`, in order, as problems.

    `jobs` is for profiles with workers of their own.
    """
    files = Files()
    for path in paths:
        with files.asked() as asked:
            found = deduplicate(
                (*refusals(path, env, settings, env.shown(path)), *_about(path, env, files))
            )
            reads = {read: digest for read, digest in asked.items() if digest}
            for missing in asked.keys() - reads.keys():
                env.look(
                    "file", str(missing)
                )  # remembered: should it come into being, this has to be said again
        yield Flattened(problems=found, reads=reads)


def _about(path: Path, env: Environment, files: Files) -> tuple[Problem, ...]:
    try:
        case = make_case(path, files.text, env.shown)
    except PatchgenError as error:
        return problems_of(error)
    return tuple(findings(case))


def findings(case: Case) -> Iterator[Problem]:
    """What is wrong with the shipped files of `case`."""
    for pair in case.pairs:
        yield from _of_class(pair, case)
    for question in (broken_words, dropped_statements, dangling_names, other_choices):
        yield from question(case)


def _of_class(pair: Pair, case: Case) -> Iterator[Problem]:
    ours, theirs = merged(pair, case), case.shipped_class(pair.name)
    if isinstance(ours, tuple):
        yield from ours
    if theirs is None:
        what = f"no output beside the file has the class {pair.name}"
        yield finding("PG710", case.at(pair.block), what, "convert the file first")
        return
    named = [
        *leaks(pair, case, theirs),
        *unrecognised_removals(pair, case, theirs),
        *shared_names(pair, case, theirs),
    ]
    yield from (problem for _, problem in named)
    if isinstance(ours, ast.ClassDef):
        explained = {(pair.name, member) for member, _ in named}
        yield from (
            found
            for found in differences(pair, case, ours, theirs)
            if found.subject not in explained
        )
