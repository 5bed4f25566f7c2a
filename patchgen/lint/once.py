"""Each fact once: what is met with the whole file and with one class, or under two codes.

In: the findings of one file.  Out: the same, sorted, without those that another one says as well or better.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from patchgen.errors import Location, Problem

# A call of the parent's method that the strict profile keeps under a private name: `_init_of_LlamaMLP`.
_MISFIT = re.compile(r"PG406 .* does not fit: (?P<owner>\w+)\._(?P<method>\w+)_of_(?P<parent>\w+) (?P<why>.*)")
_IGNORED = re.compile(r"(?P<owner>\w+)\.(?P<method>\w+) passes other arguments")


def each_once(found: Iterable[Problem]) -> tuple[Problem, ...]:
    """`found`, sorted; a refusal of a class is met with the file, and once more with the class alone."""
    refused: dict[tuple[Location, str], Problem] = {}
    others: set[Problem] = set()
    for problem in found:
        if problem.code == "PG701":
            refused.setdefault((problem.at, problem.what.partition(": ")[2][:5]), problem)
        else:
            others.add(problem)
    return tuple(sorted(_told_by_the_call(others, refused.values())))


def _told_by_the_call(others: Iterable[Problem], refused: Iterable[Problem]) -> Iterator[Problem]:
    """All of both, but a `super()` call that Python would refuse is PG729 alone, which says why.

    PG701 has the call under the private name that it would get, which stands in no file.
    """
    calls = {(m["owner"], m["method"].strip("_")): p for p in others if (m := _IGNORED.match(p.what)) is not None}
    told: dict[Problem, Problem] = {}
    for problem in refused:
        misfit = _MISFIT.search(problem.what)
        call = calls.get((misfit["owner"], misfit["method"])) if misfit else None
        if misfit is None or call is None:
            yield problem
        else:
            told.setdefault(call, _with_reason(call, misfit))
    yield from (told.get(problem, problem) for problem in others)


def _with_reason(call: Problem, misfit: re.Match[str]) -> Problem:
    ignored = _IGNORED.match(call.what)
    assert ignored is not None
    return replace(call, what=f"{call.what}; in Python {misfit['parent']}.{ignored['method']} {misfit['why']}")
