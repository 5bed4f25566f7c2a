"""Report each fact once, where several rules or the whole file and one class find it.

In: the findings of one file.  Out: the same, sorted, without those that another one says as well or
better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from patchgen.syntax.errors import Location, Problem


def deduplicate(found: Iterable[Problem]) -> tuple[Problem, ...]:
    """`found`, sorted.

    A refusal of a class is met with the file, and once more with the class alone.
    """
    refused: dict[tuple[Location, str], Problem] = {}
    others: set[Problem] = set()
    for problem in found:
        if problem.cause is not None:
            # The first is the one that was met with the file, and has the better place.
            refused.setdefault((problem.at, problem.cause.code), problem)
        else:
            others.add(problem)
    return tuple(sorted(_merge_super_calls(others, refused.values())))


def _merge_super_calls(others: Iterable[Problem], refused: Iterable[Problem]) -> Iterator[Problem]:
    """Report a `super()` call that Python would refuse as PG729 alone, which says why."""
    calls = {problem.subject: problem for problem in others if problem.code == "PG729"}
    explained: dict[Problem, Problem] = {}
    for problem in refused:
        caller, callee, why = "", "", ""
        # Of all refusals, only this one is about the arguments of a call.
        if problem.cause and problem.cause.code == "PG406":
            caller, callee, why = problem.cause.subject
        method = callee.rpartition(".")[2]
        call = calls.get((caller, method))
        if call is None:
            yield problem
        else:
            reason = f"in Python {callee} {why}"
            explained.setdefault(call, replace(call, what=f"{call.what}; {reason}"))
    yield from (explained.get(problem, problem) for problem in others)
