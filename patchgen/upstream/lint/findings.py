"""Run the rules on one modular file of transformers, and report each finding once."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from patchgen.compiler.flat import Flattened
from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import PatchgenError, Problem, problems_of
from patchgen.syntax.locate import Environment
from patchgen.upstream.files import Files
from patchgen.upstream.lint.case import Case, Pair, make_case
from patchgen.upstream.lint.comparison import (
    Comparison,
    MethodComparison,
    compare_classes,
    compare_methods,
)
from patchgen.upstream.lint.deduplicate import deduplicate
from patchgen.upstream.lint.finding import finding
from patchgen.upstream.lint.refusals import inherit, refusals
from patchgen.upstream.lint.rules import (
    BODY_RULES,
    CLASS_RULES,
    COMPARISON_RULES,
    FILE_RULES,
    METHOD_RULES,
)
from patchgen.upstream.lint.verdict import DiffKind


def lint_files(
    paths: Sequence[Path], env: Environment, settings: Settings, jobs: int = 1
) -> Iterator[Flattened]:
    """The findings of each of `paths`, in order, as problems.

    `jobs` is for profiles with workers of their own.
    """
    files = Files()
    for path in paths:
        with files.asked() as asked:
            refused = refusals(path, env, settings, env.display_path(path))
            found = deduplicate((*refused, *_find_problems(path, env, files)))
            reads = {read: digest for read, digest in asked.items() if digest}
            # Remembered by the question: should such a file come into being, the answer changes.
            for missing in asked.keys() - reads.keys():
                env.look("file", str(missing))
        yield Flattened(problems=found, reads=reads)


def _find_problems(path: Path, env: Environment, files: Files) -> tuple[Problem, ...]:
    """The findings of one file, or the problems that keep it from being read."""
    try:
        case = make_case(path, files.text, env.display_path)
    except PatchgenError as error:
        return problems_of(error)
    return tuple(findings(case))


def findings(case: Case) -> Iterator[Problem]:
    """What is wrong with the shipped files of `case`."""
    for pair in case.pairs:
        yield from _check_class(pair, case)
    for rule in FILE_RULES:
        yield from rule.check(case)


def _check_class(pair: Pair, case: Case) -> Iterator[Problem]:
    """What is wrong with one class.

    A member with a finding of `CLASS_RULES` gets none of the comparison, whose cause is the same.
    """
    inherited = inherit(pair, case)
    if isinstance(inherited, tuple):
        yield from inherited
    shipped = case.shipped_class(pair.name)
    if shipped is None:
        what = f"no output beside the file has the class {pair.name}"
        yield finding("PG710", case.at(pair.block), what, "convert the file first")
        return
    # First the rules that name a cause: what the comparison says of the same member is its effect.
    explained: set[tuple[str, str]] = set()
    for rule in CLASS_RULES:
        for member, problem in rule.check(pair, case, shipped):
            explained.add((pair.name, member))
            yield problem
    # Without an inherited class, it is shipped word for word, or the strict profile refuses it.
    if isinstance(inherited, ast.ClassDef):
        comparison = compare_classes(pair, case, inherited, shipped)
        for problem in _find_differences(comparison):
            if problem.subject not in explained:
                yield problem


def _find_differences(comparison: Comparison) -> Iterator[Problem]:
    """What a class does otherwise than Python's inheritance would."""
    for rule in COMPARISON_RULES:
        yield from rule.check(comparison)
    for method in compare_methods(comparison):
        for problem in _check_method(method):
            yield comparison.about(method.name, problem)


def _check_method(method: MethodComparison) -> Iterator[Problem]:
    """What is wrong with one method that both classes have."""
    for rule in METHOD_RULES:
        yield from rule.check(method)
    if method.verdict.kind is DiffKind.SAME:
        return
    for rule in BODY_RULES:
        found = list(rule.check(method))
        yield from found
        # One explanation is enough.
        if found:
            return
