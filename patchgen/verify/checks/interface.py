"""Check a model that calls transformers' attention interface with each attention function.

The case's detail names one: "eager", "flex_attention", "flash", or "registered", a user's function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import flash_attention_mask, sdpa_mask

from patchgen.verify.checks.context import CheckContext, NothingToCompare, Verdict, decide
from patchgen.verify.checks.numbers import compare
from patchgen.verify.compare.tolerance import EQUAL, REORDERED, loosest
from patchgen.verify.models.attention_functions import flash_reference, flex_on_cpu, registered
from patchgen.verify.models.pair import Pair
from patchgen.verify.parts.combine import ATTENTION, EAGER
from patchgen.verify.parts.part_check import Route

OWN = "a_function_of_ones_own"


def check_interface(context: CheckContext) -> Verdict:
    """Compare with the parent under "eager", in the case's scenario."""
    pair, how = context.pair, context.case.detail
    if how == "flex_attention" and not pair.variant_class._supports_flex_attn:
        raise NothingToCompare("its flags say that it does not take flex attention")
    if how == "flash" and not pair.variant_class._supports_flash_attn:
        raise NothingToCompare("its flags say that it does not take FlashAttention")
    with ATTENTION_FUNCTIONS[how](pair) as (route, calls):
        verdict = _compared(context, route)
    if calls is not None and len(calls) < pair.config().num_hidden_layers:
        return Verdict("FAIL", f"the function was called {len(calls)} times; {verdict.note}")
    return verdict


def _compared(context: CheckContext, route: Route) -> Verdict:
    pair, scenario = context.pair, context.case.scenario
    pair.observe_parent(route, context.dtype, scenario)
    observed = pair.observe_variant(route, context.dtype, scenario)
    return decide(context, compare(pair, route, context.dtype, scenario, observed), route)


_RouteAndCalls = tuple[Route, list[dict[str, Any]] | None]


def _route(name: str, bound: Any = REORDERED) -> Route:
    return Route(f"eager, the variant under {name}", bound, EAGER, {ATTENTION: name})


@contextmanager
def _eager(pair: Pair) -> Iterator[_RouteAndCalls]:
    """The bound: bit for bit, unless other parts of the variant have larger bounds."""
    others = [check for check in pair.part_checks if not check.by_flags]
    closest = [check.routes(pair.parent_class)[0] for check in others]
    yield _route("eager", loosest([EQUAL, *(route.bound for route in closest)])), None


@contextmanager
def _flex(pair: Pair) -> Iterator[_RouteAndCalls]:
    with flex_on_cpu():
        yield _route("flex_attention"), None


@contextmanager
def _flash(pair: Pair) -> Iterator[_RouteAndCalls]:
    with registered("by_reference", flash_reference, flash_attention_mask) as calls:
        yield _route("by_reference"), calls


@contextmanager
def _registered(pair: Pair) -> Iterator[_RouteAndCalls]:
    with registered(OWN, sdpa_attention_forward, sdpa_mask) as calls:
        yield _route(OWN), calls


ATTENTION_FUNCTIONS: dict[str, Callable[[Pair], Any]] = {
    "eager": _eager,
    "flex_attention": _flex,
    "flash": _flash,
    "registered": _registered,
}
