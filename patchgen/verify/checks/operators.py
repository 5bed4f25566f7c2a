"""Check the custom operators that a variant runs, by torch's own `opcheck`.

`torch.compile` trusts an operator's fake function and its schema: where they say something else
than the operator does, a compiled model computes nonsense, and no eager step shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.library import opcheck
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from patchgen.verify.checks.context import CheckContext, NothingToCompare, Verdict
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
    with _Calls() as calls:
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


class _Calls(TorchDispatchMode):
    """The first call of each operator that is not torch's, with copies of its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.first: dict[str, Call] = {}

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        if func.namespace not in NATIVE and str(func) not in self.first:
            copied_args, copied = tree_map_only(Tensor, _copy, (args, given))
            self.first[str(func)] = func, copied_args, copied
        return func(*args, **given)


def _copy(tensor: Tensor) -> Tensor:
    return torch.clone(tensor.detach())
