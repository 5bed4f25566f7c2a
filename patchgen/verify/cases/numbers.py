"""Cases that compare the numbers of one training step, by dtype, padding and way to train."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from patchgen.verify.cases.case import (
    DROPOUT,
    EVAL_ROWS,
    ROUTES,
    ROWS,
    Case,
    compare_numbers,
)
from patchgen.verify.parts.combine import training_scenario
from patchgen.verify.parts.part_check import PartCheck, Scenario

PartChecks = tuple[PartCheck, ...]


def compare_dtypes(head: str, checks: PartChecks, dtypes: tuple[str, ...]) -> Iterator[Case]:
    """Every padding in training, where all parts are active; a few in eval, where some are not."""
    for dtype in dtypes:
        for rows in ROWS:
            training = training_scenario(checks, rows)
            for route, called in enumerate(ROUTES):
                yield compare_numbers(head, dtype, f"{rows} {called}", training, route)
        for rows in EVAL_ROWS:
            yield compare_numbers(head, dtype, f"{rows} eval", Scenario(rows=rows))


def compare_ways_to_train(head: str, checks: PartChecks, dtypes: tuple[str, ...]) -> Iterator[Case]:
    """Dropout, accumulation, autocast and checkpointing, each along the closest route."""
    for name, scenario in _ways_to_train(checks).items():
        if scenario.autocast and "bfloat16" not in dtypes:
            continue
        yield compare_numbers(head, "float32", name, scenario)
    padded = Scenario(rows="right")
    yield Case(f"{head} float32 attention weights", "weights", head, scenario=padded)
    dropped = replace(padded, train=True, dropout=DROPOUT)
    yield Case(f"{head} float32 attention weights, dropout", "weights", head, scenario=dropped)


def _ways_to_train(checks: PartChecks) -> dict[str, Scenario]:
    training = training_scenario(checks)
    padded = Scenario(rows="right", train=True)
    scenarios = {
        "without labels": Scenario(labels=False),
        "without labels, padded": Scenario(labels=False, rows="right"),
        "dropout": replace(padded, dropout=DROPOUT),
        "dropout, full": Scenario(train=True, dropout=DROPOUT),
        "accumulated": replace(padded, accumulate=2),
        "autocast": replace(training, autocast=True),
        # With a mask, which autocast does not cast in every model.
        "autocast, padded": replace(training_scenario(checks, "right"), autocast=True),
    }
    if training.checkpointing is not None:
        scenarios["not checkpointed"] = padded
    for check in checks:
        for options in check.checkpointing:
            described = _describe(options)
            checkpointed = replace(padded, checkpointing=options)
            with_dropout = replace(checkpointed, dropout=DROPOUT)
            scenarios[f"checkpointed {described}".strip()] = checkpointed
            scenarios[f"checkpointed with dropout {described}".strip()] = with_dropout
    return scenarios


def _describe(options: Mapping[str, Any]) -> str:
    """The options of checkpointing in words: "use_reentrant=True", or the name of a function."""
    words = []
    for name, value in options.items():
        words.append(getattr(value, "__name__", f"{name}={value}"))
    return ", ".join(words)


def compare_other_head(head: str, checks: PartChecks, dtypes: tuple[str, ...]) -> Iterator[Case]:
    """A few cases for a head other than the main one."""
    for dtype in dtypes:
        for rows in ROWS[:2]:
            yield compare_numbers(head, dtype, rows, training_scenario(checks, rows))
    evaluated = Scenario(rows="left", dropout=DROPOUT)
    yield compare_numbers(head, "float64", "left train", training_scenario(checks, "left"))
    yield compare_numbers(head, "float64", "left eval, dropout set", evaluated)


def compare_hidden_states(head: str, checks: PartChecks) -> Iterator[Case]:
    """A case with hidden states, if the other cases do not ask for them."""
    if all(check.works_with_hidden_states for check in checks):
        return
    for rows in ROWS:
        label = f"{rows}, all states"
        yield compare_numbers(head, "float64", label, training_scenario(checks, rows))
