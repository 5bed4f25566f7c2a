"""The sets of cases by their names: the matrix, and the classic tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from patchgen.bench.case import Case
from patchgen.bench.contestant import Contestant
from patchgen.bench.matrix import CASES
from patchgen.bench.tables import FINETUNE, MEMORY, PRETRAIN
from patchgen.bench.tiny import tiny_case
from patchgen.errors import did_you_mean

SETS: dict[str, tuple[Case, ...]] = {
    "matrix": CASES,
    "finetune": (FINETUNE,),
    "pretrain": (PRETRAIN,),
    "memory": (MEMORY,),
}


def wanted_cases(
    table: str, ids: Sequence[str] = (), only: Sequence[str] = (), *, tiny: bool = False
) -> tuple[Case, ...]:
    """The cases of a set that `ids` names, by their ids or by what these begin with, all by default.

    With `only`, their contestants of these names or of these variants, and the anchors.  Raises LookupError for a name
    that nothing has.
    """
    known = SETS[table]
    for name in ids:
        if not any(case.id.startswith(name) for case in known):
            raise LookupError(f"{table} has no case {name!r}. {_hint(name, [case.id for case in known])}")
    chosen = [case for case in known if not ids or any(case.id.startswith(name) for name in ids)]
    chosen = [_with(case, only) for case in chosen]
    chosen = [case for case in chosen if len(case.contestants) > 1 or not only]
    if not chosen:
        names = {name for case in known for one in case.contestants for name in (one.name, one.variant) if name}
        raise LookupError(f"no case has {' or '.join(only)}. {_hint(only[0], sorted(names))}")
    return tuple(tiny_case(case) if tiny else case for case in chosen)


def _with(case: Case, only: Sequence[str]) -> Case:
    if not only:
        return case
    return replace(case, contestants=tuple(one for one in case.contestants if _stays(one, case, only)))


def _stays(one: Contestant, case: Case, only: Sequence[str]) -> bool:
    return one.name == case.anchor or one.name in only or one.variant in only


def _hint(name: str, known: Sequence[str]) -> str:
    return did_you_mean(name, known) or f"There are {', '.join(known)}."
