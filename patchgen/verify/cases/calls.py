"""Cases that call the model in another way: other arguments, other lengths, another head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from patchgen.verify.cases.case import DROPOUT, EVAL_ROWS, LONG, ODD_ROWS, Case, compare_numbers
from patchgen.verify.inputs.calls import BY_CONFIGURATION, FROZEN
from patchgen.verify.parts.combine import training_scenario
from patchgen.verify.parts.part_check import PartCheck, Scenario

# `Scenario.ways` are keys of `inputs.calls`.  All run in float64, the most sensitive dtype.
CALLS: Mapping[str, Scenario] = {
    "typed": Scenario(rows="right", ways=("types of tokens",)),
    "embedded": Scenario(rows="right", ways=("embeddings",)),
    "placed": Scenario(ways=("positions",)),
    "placed, padded": Scenario(rows="left", ways=("positions",)),
    "typed, placed, embedded": Scenario(
        rows="left", ways=("types of tokens", "positions", "embeddings")
    ),
    "mask of ones": Scenario(ways=("mask of ones",)),
    "mask of floats": Scenario(rows="right", ways=("mask of floats",)),
    "mask of floats, left": Scenario(rows="left", ways=("mask of floats",)),
    "mask of bools": Scenario(rows="left", ways=("mask of bools",)),
    "mask of four axes": Scenario(rows="right", ways=("mask of four axes",)),
    "as a tuple": Scenario(rows="left", ways=("a tuple",)),
    # In eval mode dropout must do nothing, whatever its rate.
    "eval, dropout set": Scenario(rows="left", dropout=DROPOUT),
    "one token": Scenario(length=1, labels=False),
    "long": Scenario(length=LONG),
    "long, padded": Scenario(rows="left", length=LONG),
}
TRAINING_CALLS: Mapping[str, Scenario] = {
    "ignoring a label": Scenario(train=True, ways=("ignore_index",)),
    "counted": Scenario(rows="right", train=True, ways=("num_items_in_batch",)),
    "with shifted labels": Scenario(train=True, ways=("shift_labels",)),
    "with a hook at its head": Scenario(rows="right", train=True, ways=("a head with a hook",)),
    "with a hook at its head, ignoring a label": Scenario(
        train=True, ways=("a head with a hook", "ignore_index")
    ),
    **{
        f"with {way}": Scenario(rows="right", train=True, ways=(way,))
        for way in (
            "a head with a hook before it",
            "a head with a hook at its gradient",
            "a head with a hook before its gradient",
            "a wrapped head",
            "a head of another class",
            "a loss function of one's own",
        )
    },
    "with a bias at its head": Scenario(rows="right", train=True, ways=("a head with a bias",)),
    "with a frozen head": Scenario(rows="right", train=True, ways=(FROZEN,)),
    "as a tuple": Scenario(rows="right", train=True, ways=("a tuple",)),
    "long": Scenario(train=True, length=LONG),
}


def compare_calls(
    head: str, checks: tuple[PartCheck, ...], dtypes: tuple[str, ...]
) -> Iterator[Case]:
    """A case for each way to call the model, in training with every part active."""
    for name, scenario in CALLS.items():
        yield compare_numbers(head, "float64", name, scenario)
    checkpointing = training_scenario(checks).checkpointing
    for name, scenario in TRAINING_CALLS.items():
        training = replace(scenario, checkpointing=checkpointing)
        yield compare_numbers(head, "float64", f"trained {name}", training)
    for rows in ODD_ROWS:
        for dtype in ("float64", "bfloat16") if "bfloat16" in dtypes else ("float64",):
            yield compare_numbers(head, dtype, f"{rows} train", training_scenario(checks, rows))
    for rows in EVAL_ROWS:
        evaluated, training = Scenario(rows=rows, dropout=DROPOUT), training_scenario(checks, rows)
        yield compare_numbers(head, "float64", f"{rows} eval, both eager", evaluated, route=2)
        yield compare_numbers(head, "float64", f"{rows} train, both eager", training, route=2)
    by_configuration = Scenario(rows="left", ways=(BY_CONFIGURATION,))
    name = f"{head} float64 attention weights"
    yield Case(f"{name} by configuration", "weights", head, "float64", scenario=by_configuration)
    yield Case(f"{name}, full", "weights", head, "float64")
