"""Report each fact once, where several rules or the whole file and one class find it.

In: the findings of one file.  Out: the same, sorted, without those that another one says as well or
better.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from patchgen.syntax.errors import Location, Problem

# The name under which the strict profile keeps a parent's method that is called:
# `LlamaMLP._init_of_OldMLP`.
_KEPT = re.compile(r"(?P<owner>\w+)\._(?P<method>\w+)_of_(?P<parent>\w+)")


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
    """Report a `super()` call that Python would refuse as PG729 alone, which says why.

    PG701 reports the call under the private name of the kept method, which is in no file.
    """
    calls = {_without_underscores(p): p for p in others if p.code == "PG729"}
    explained: dict[Problem, Problem] = {}
    for problem in refused:
        callee, why = "", ""
        # Of all refusals, only this one is about the arguments of a call.
        if problem.cause and problem.cause.code == "PG406":
            callee, why = problem.cause.subject
        kept = _KEPT.fullmatch(callee)
        call = calls.get((kept["owner"], kept["method"])) if kept else None
        if kept is None or call is None:
            yield problem
        else:
            reason = f"in Python {kept['parent']}.{call.subject[1]} {why}"
            explained.setdefault(call, replace(call, what=f"{call.what}; {reason}"))
    yield from (explained.get(problem, problem) for problem in others)


def _without_underscores(problem: Problem) -> tuple[str, str]:
    """The class and the method that `problem` is about, the latter as it stands in the name of what
    is kept.
    """
    owner, method = problem.subject
    return owner, method.strip("_")
