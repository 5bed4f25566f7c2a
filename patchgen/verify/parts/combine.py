"""Combine the checks of all parts of one variant."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

from transformers import PreTrainedModel

from patchgen.verify.differences import REORDERED, loosest
from patchgen.verify.parts.part_check import PartCheck, Route, Rows, Scenario

# The parent as it is by default.
PLAIN = Route("its defaults", REORDERED)
ATTENTION = "attn_implementation"
EAGER = {ATTENTION: "eager"}


def find_part_checks(parts: tuple[str, ...]) -> tuple[PartCheck, ...]:
    """The check of each of `parts`.  Raises LookupError for a part that has none."""
    found = []
    for part in parts:
        try:
            found.append(importlib.import_module(f"patchgen.verify.parts.{part}").PART_CHECK)
        except ModuleNotFoundError as error:
            if error.name != f"patchgen.verify.parts.{part}":
                raise
            raise LookupError(
                f"the part {part} has no check in patchgen/verify/parts/{part}.py"
            ) from error
    return tuple(found)


def decides_attention(part_check: PartCheck) -> bool:
    """Whether the part replaces the attention, and so alone decides which one a variant has."""
    return part_check.attentions is not None


def merge_routes(
    part_checks: tuple[PartCheck, ...], parent_class: type[PreTrainedModel]
) -> tuple[Route, Route]:
    """The closest route that all part checks share, and the most independent one."""
    if not part_checks:  # made by hand
        return PLAIN, PLAIN
    is_decided = any(map(decides_attention, part_checks))
    closest, independent = [], []
    for part_check in part_checks:
        routes = part_check.routes(parent_class)
        if is_decided and not decides_attention(part_check):
            routes = tuple(map(_without_attention, routes))
        closest.append(routes[0])
        independent.append(routes[-1])
    return _merge(closest), _merge(independent)


def _without_attention(route: Route) -> Route:
    """`route` without a setting of the attention."""
    parent, variant = (
        {name: value for name, value in settings.items() if name != ATTENTION}
        for settings in (route.parent, route.variant)
    )
    return replace(route, parent=parent, variant=variant)


def _merge(routes: list[Route]) -> Route:
    parent: dict[str, Any] = {}
    variant: dict[str, Any] = {}
    for route in routes:
        for into, settings in ((parent, route.parent), (variant, route.variant)):
            for name, value in settings.items():
                if into.setdefault(name, value) != value:
                    values = f"{into[name]!r} and {value!r}"
                    raise ValueError(f"part checks disagree about {name}: {values}")
    name = " + ".join(dict.fromkeys(route.name for route in routes))
    return Route(name, loosest(route.bound for route in routes), parent, variant)


def weights_route(part_checks: tuple[PartCheck, ...], routes: tuple[Route, Route]) -> Route:
    """The route along which both sides return attention weights.

    The parent's come from its eager attention, and so do the variant's if no part replaces the
    attention.  Otherwise the variant uses the settings of its closest route, or the attention that
    a part check names.
    """
    closest, independent = routes
    if any(map(decides_attention, part_checks)):
        under = [
            part_check.weights_under
            for part_check in part_checks
            if part_check.weights_under is not None
        ]
        variant = {**closest.variant, **({ATTENTION: under[0]} if under else {})}
        return replace(independent, name=f"weights under {independent.name}", variant=variant)
    name = f"{closest.name}, both eager"
    return replace(
        closest, name=name, parent={**closest.parent, **EAGER}, variant={**closest.variant, **EAGER}
    )


def training_scenario(part_checks: tuple[PartCheck, ...], rows: Rows = "full") -> Scenario:
    """A training step with every part active and no dropout; checkpointed if a part needs that."""
    ways = [
        part_check.effect_scenario.checkpointing
        for part_check in part_checks
        if part_check.effect_scenario.checkpointing is not None
    ]
    together = {name: value for way in ways for name, value in way.items()}
    return Scenario(rows=rows, train=True, checkpointing=together if ways else None)
