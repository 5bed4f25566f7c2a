"""The tables of cases by name: the matrix, and the classic studies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.training.bench.case import Case
from patchgen.training.bench.entry import Entry
from patchgen.training.bench.matrix import CASES
from patchgen.training.bench.tables import FINETUNE, MEMORY, PRETRAIN
from patchgen.training.bench.tiny import tiny_case

SETS: dict[str, tuple[Case, ...]] = {
    "matrix": CASES,
    "finetune": (FINETUNE,),
    "pretrain": (PRETRAIN,),
    "memory": (MEMORY,),
}


def wanted_cases(
    table: str, ids: Sequence[str] = (), only: Sequence[str] = (), *, tiny: bool = False
) -> tuple[Case, ...]:
    """Return the cases of a table whose ids start with one of `ids`; by default all.

    With `only`, return cases with entries of these names or variants, with these entries and the
    baseline only.  Raises PatchgenError PG826 for an unknown name.
    """
    known = SETS[table]
    for name in ids:
        if not any(case.id.startswith(name) for case in known):
            raise _unknown(name, f"is no case of the table {table}", [case.id for case in known])
    chosen = [case for case in known if not ids or any(case.id.startswith(name) for name in ids)]
    _check_entries(chosen, only)
    wanted = [
        case.id for case in chosen if not only or any(_is_of(one, only) for one in case.entries)
    ]
    return select_cases(table, wanted, only, tiny=tiny)


def names_of_compiled(cases: Sequence[Case]) -> tuple[str, ...]:
    """Return the names of compiled entries."""
    return tuple(dict.fromkeys(one.name for case in cases for one in case.entries if one.compiled))


def select_cases(
    table: str, ids: Sequence[str], only: Sequence[str], *, tiny: bool
) -> tuple[Case, ...]:
    """Return the cases with exactly these ids, as `wanted_cases` does."""
    chosen = [_with(case, only) if only else case for case in SETS[table] if case.id in ids]
    return tuple(tiny_case(case) if tiny else case for case in chosen)


def _check_entries(cases: Sequence[Case], only: Sequence[str]) -> None:
    every = [one for case in cases for one in case.entries]
    names = sorted({name for one in every for name in (one.name, one.variant) if name})
    for name in only:
        if name not in names:
            ids = ", ".join(case.id for case in cases)
            raise _unknown(f"--only {name}", f"is no entry and no variant of {ids}", names, name)


def _with(case: Case, only: Sequence[str]) -> Case:
    stays = (one for one in case.entries if one.name == case.baseline or _is_of(one, only))
    return replace(case, entries=tuple(stays))


def _is_of(one: Entry, only: Sequence[str]) -> bool:
    return one.name in only or one.variant in only


def _unknown(where: str, what: str, known: Sequence[str], name: str = "") -> PatchgenError:
    hint = did_you_mean(name or where, known) or f"there are {', '.join(known)}"
    return PatchgenError("PG826", Location(where), what, hint)
