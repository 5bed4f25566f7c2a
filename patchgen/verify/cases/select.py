"""Select the cases of a variant, from its text and its parts, before any model is built.

A case can turn out to have nothing to compare: a head without a loss, a parent that mixes packed
texts.  Its result is then `NONE`, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from patchgen.verify.cases.calls import compare_calls
from patchgen.verify.cases.case import UNPACKED_ROWS, Case
from patchgen.verify.cases.numbers import (
    compare_dtypes,
    compare_hidden_states,
    compare_other_head,
    compare_ways_to_train,
)
from patchgen.verify.cases.order import order_cases
from patchgen.verify.cases.parts import (
    check_operations,
    check_padding_and_dropout,
    compare_with_itself,
    plant_errors,
    show_effects,
    try_interface,
)
from patchgen.verify.cases.settings import (
    compare_heads,
    compare_lengths,
    compare_published,
    compare_settings,
)
from patchgen.verify.cases.usage import (
    check_declared,
    hold_against_itself,
    keep_fast_path,
    load_and_initialize,
    use_model,
)
from patchgen.verify.configs.read import changed_heads, read_of
from patchgen.verify.parts.part_check import PartCheck
from patchgen.verify.variants import Plan, Variant

PartChecks = tuple[PartCheck, ...]
QUICK = Plan()
SHORT_DTYPES = ("float64", "float32")


def select_cases(variant: Variant, checks: PartChecks, plan: Plan = QUICK) -> tuple[Case, ...]:
    """Every case of `variant`.  Cheap cases that find most errors come first.

    Raises LookupError if the variant has no class to run: nothing would be compared.
    """
    if not variant.heads:
        raise LookupError(f"{variant.module} has no public model class")
    main = variant.heads[0]
    if plan.short:
        return tuple(_drop_hidden_states(_select_short(main, checks, plan), checks))
    selected = [
        *load_and_initialize(main),
        *show_effects(main, checks),
        *check_operations(main),
        *compare_with_itself(main, checks, read_of(variant).classes),
        *compare_dtypes(main, checks, plan.dtypes),
        *plant_errors(main, checks, plan.dtypes),
        *compare_ways_to_train(main, checks, plan.dtypes),
        *compare_calls(main, checks, plan.dtypes),
        *try_interface(main, checks),
        *keep_fast_path(main, checks, plan),
        *check_padding_and_dropout(variant, checks),
        *compare_settings(variant, checks, plan.dtypes),
        *compare_published(variant, checks, plan.dtypes),
        *compare_lengths(variant, checks),
        *compare_heads(variant, checks),
        *use_model(main, checks, plan),
        *hold_against_itself(main, plan.dtypes),
        *check_declared(variant, checks, plan.dtypes),
    ]
    for head in _find_other_heads(variant, plan):
        selected += load_and_initialize(head)
        selected += compare_other_head(head, checks, plan.dtypes)
        selected += compare_with_itself(head, checks)
    # Every head: models on the meta device take no memory.
    for head in variant.heads:
        selected.append(Case(f"{head} plans", "plans", head))
    every = (*_drop_hidden_states(selected, checks), *compare_hidden_states(main, checks))
    return _order(every)


def _order(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    """Those first that tell something new for what they cost, then the errors of parts.

    What repeats another case in a new combination comes last.
    """
    own = [case for case in cases if case.kind != "planted"]
    ordered = order_cases(own, [frozenset[int]()] * len(own))
    planted = [case for case in cases if case.kind == "planted"]
    return (
        *(own[at] for at in ordered.telling),
        *planted,
        *(own[at] for at in ordered.rest),
    )


def _select_short(head: str, checks: PartChecks, plan: Plan) -> Iterator[Case]:
    """The cases of every model, whatever its parts."""
    dtypes = tuple(dtype for dtype in plan.dtypes if dtype in SHORT_DTYPES)
    yield from load_and_initialize(head)
    yield from show_effects(head, checks)
    for case in compare_dtypes(head, checks, dtypes):
        if case.route == 0 and case.scenario.train and case.scenario.rows in UNPACKED_ROWS:
            yield case
    yield from plant_errors(head, checks, dtypes[-1:])


def _find_other_heads(variant: Variant, plan: Plan) -> tuple[str, ...]:
    """The other heads: all if the plan is full, otherwise the base model and changed heads."""
    if plan.full:
        return variant.heads[1:]
    wanted = {*variant.heads[1:2], *changed_heads(variant)}
    return tuple(head for head in variant.heads[1:] if head in wanted)


def _drop_hidden_states(cases: Iterable[Case], checks: PartChecks) -> Iterator[Case]:
    """Ask for no hidden states if a part does not work when they are asked for."""
    if all(check.works_with_hidden_states for check in checks):
        yield from cases
        return
    for case in cases:
        yield replace(case, scenario=replace(case.scenario, states=False))
