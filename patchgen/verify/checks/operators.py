"""Check the custom operators that a variant runs, by torch's own `opcheck`.

`torch.compile` trusts an operator's fake function and its schema: where they say something else
than the operator does, a compiled model computes nonsense, and no eager step shows it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.library import opcheck
from torch.utils._pytree import tree_map_only

from patchgen.verify.checks.context import CheckContext, NothingToCompare, Verdict
from patchgen.verify.observe.recorder import Args, Given, Listener, listening
from patchgen.verify.observe.step import observe_step

Call = tuple[Any, tuple[Any, ...], dict[str, Any]]
# Namespaces of torch's own operators.
NATIVE = frozenset(
    {"aten", "prim", "prims", "profiler", "higher_order", "c10d", "_c10d_functional"}
)
TESTS = ("test_schema", "test_faketensor")


def check_operators(context: CheckContext) -> Verdict:
    """Check each of the variant's own operators, as the case's step calls it."""
    pair, scenario = context.pair, context.case.scenario
    pair.observe_parent(pair.routes[0], context.dtype, scenario)  # raises if the parent cannot
    _, variant = pair.models(pair.routes[0], context.dtype)
    with listening(calls := _Calls()):
        observe_step(variant, pair.inputs(scenario, context.dtype), scenario)
    if not calls.first:
        raise NothingToCompare("it runs no operator of its own")
    for operator, args, kwargs in calls.first.values():
        try:
            opcheck(operator, args, kwargs, test_utils=TESTS)
        except Exception as error:  # an operator raises what it likes
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return Verdict("FAIL", f"{operator}: {lines[0][:200]}")
    return Verdict("PASS", ", ".join(sorted(calls.first)))


class _Calls(Listener):
    """The first call of each operator that is not torch's, with copies of its arguments."""

    def __init__(self) -> None:
        self.first: dict[str, Call] = {}

    def begins(self, operation: Any, args: Args, given: Given) -> None:
        if operation.namespace not in NATIVE and str(operation) not in self.first:
            self.first[str(operation)] = operation, *tree_map_only(Tensor, _copy, (args, given))


def _copy(tensor: Tensor) -> Tensor:
    return torch.clone(tensor.detach())
