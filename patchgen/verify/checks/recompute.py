"""Check that selective checkpointing keeps what it promises, and computes the rest again.

Numbers do not tell: what is kept for nothing, or computed twice, is the same.  So products are
counted by their shapes in one step without checkpointing, with all of it, and with what keeps
products:

    not checkpointed   3 products of shape a, 2 of shape b
    everything again   6                      4             so each runs again
    products kept      3                      4             b is larger than its factors: right
                                                            where the rule says so
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from patchgen.runtime.checkpointing import ChangedInPlace
from patchgen.verify.checks.context import CheckContext, NothingToCompare, Verdict
from patchgen.verify.models.pair import Pair
from patchgen.verify.observe.recorder import Args, Given, Listener, listening
from patchgen.verify.observe.step import observe_step
from patchgen.verify.parts.scenario import Scenario

Shape = tuple[int, ...]
Product = tuple[str, Shape, Shape]
PRODUCTS = frozenset({"aten.mm", "aten.addmm", "aten.convolution"})
BATCHED = frozenset({"aten.bmm", "aten.baddbmm"})


def check_recompute(context: CheckContext) -> Verdict:
    """Check that the products that are cheap to keep are kept, and nothing else."""
    pair, scenario = context.pair, context.case.scenario
    if not pair.variant_class.supports_gradient_checkpointing:
        raise NothingToCompare("it has no gradient checkpointing")
    plain = _counted(pair, replace(scenario, checkpointing=None))
    full = _counted(pair, replace(scenario, checkpointing={}))
    try:
        kept = _counted(pair, scenario)
    except ChangedInPlace as error:
        raise NothingToCompare(str(error)) from error
    again = full - plain
    if not again.total():
        return Verdict("FAIL", "no product is computed again, whatever the policy")
    wrong = list(_wrong(again, kept - plain))
    with_policy = (kept - plain).total()
    note = f"{again.total()} products are computed again without a policy, {with_policy} with it"
    return Verdict("FAIL", f"{'; '.join(wrong[:3])}: {note}") if wrong else Verdict("PASS", note)


def _wrong(again: Counter[Product], now: Counter[Product]) -> Iterator[str]:
    """`again` is what is computed twice where nothing is kept, `now` what is with the policy."""
    for product in {**again, **now}:
        if _is_cheap_to_keep(product) and now[product]:
            yield f"{product} is not kept"
        elif not _is_cheap_to_keep(product) and now[product] < again[product]:
            yield f"{product} is kept, and is larger than what it is made of"


def _is_cheap_to_keep(product: Product) -> bool:
    """Products with weights, attention kernels, and batched products no larger than factors."""
    name, left, right = product
    if name not in BATCHED:
        return True
    (*_, rows, inner), columns = left, right[-1]
    return rows * columns <= rows * inner + inner * columns


def _attends(name: str) -> bool:
    return "_scaled_dot_product_" in name and "backward" not in name


def _counted(pair: Pair, scenario: Scenario) -> Counter[Product]:
    model = pair.models(pair.routes[0], torch.float32, scenario.dropout)[1]
    with listening(products := _Products()):
        observe_step(model, pair.inputs(scenario, torch.float32), scenario)
    return products.counts


@dataclass
class _Products(Listener):
    """Products and attentions that torch runs, the backward pass included."""

    counts: Counter[Product] = field(default_factory=Counter)

    def begins(self, operation: Any, args: Args, given: Given) -> None:
        name = str(operation.overloadpacket)
        if name in PRODUCTS | BATCHED or _attends(name):
            shapes = [tuple(each.shape) for each in args if isinstance(each, Tensor)]
            is_product = name in PRODUCTS | BATCHED and name != "aten.convolution"
            factors = shapes[-2:] if is_product else shapes[:2]
            self.counts[name, factors[0], factors[-1]] += 1
