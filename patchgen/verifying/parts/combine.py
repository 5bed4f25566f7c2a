"""How the checks of all parts of one variant go together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from transformers import PreTrainedModel

from patchgen.verifying.differences import REORDERED
from patchgen.verifying.parts.part_check import PartCheck, Route, Rows, Scenario

# The parent as it is by default.
PLAIN = Route("its defaults", REORDERED)
ATTENTION = "attn_implementation"
EAGER = {ATTENTION: "eager"}


def merge_routes(
    part_checks: tuple[PartCheck, ...], parent_class: type[PreTrainedModel]
) -> tuple[Route, Route]:
    """The closest route that all part checks share, and the most independent one."""
    if not part_checks:  # made by hand
        return PLAIN, PLAIN
    routes = [(check, check.routes(parent_class)) for check in part_checks]
    closest = [(check, each[0]) for check, each in routes]
    return _merge(closest), _merge([(check, each[-1]) for check, each in routes])


def _merge(routes: list[tuple[PartCheck, Route]]) -> Route:
    """One route of all; a part that replaces the attention decides that."""

    def rank(each: tuple[PartCheck, Route]) -> tuple[bool, bool]:
        check, route = each
        return check.attentions is None, route.variant.get(ATTENTION) == "eager"

    parent: dict[str, Any] = {}
    variant: dict[str, Any] = {}
    for _, route in sorted(routes, key=rank):
        _add_settings(parent, route.parent)
        _add_settings(variant, route.variant)
    name = " + ".join(dict.fromkeys(route.name for _, route in routes))
    return Route(name, max(route.bound for _, route in routes), parent, variant)


def _add_settings(settings: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add `more` to `settings`; the first attention counts.  Raises ValueError for two values."""
    for name, value in more.items():
        first = settings.setdefault(name, value)
        if first != value and name != ATTENTION:
            raise ValueError(f"part checks disagree about {name}: {first!r} and {value!r}")


def both_eager(route: Route) -> Route:
    parent, variant = {**route.parent, **EAGER}, {**route.variant, **EAGER}
    return replace(route, name=f"{route.name}, both eager", parent=parent, variant=variant)


def weights_route(part_checks: tuple[PartCheck, ...], routes: tuple[Route, Route]) -> Route:
    """The route along which both sides return attention weights.

    The variant's are eager too, unless a part replaces its attention: then its closest route's.
    """
    closest, independent = routes
    if all(part_check.attentions is None for part_check in part_checks):
        return both_eager(closest)
    by_flags = any(part_check.by_flags for part_check in part_checks)
    variant = {**closest.variant, **(EAGER if by_flags else {})}
    return replace(independent, name=f"weights under {independent.name}", variant=variant)


def training_scenario(part_checks: tuple[PartCheck, ...], rows: Rows = "full") -> Scenario:
    """A training step with every part active and no dropout; checkpointed if a part needs that."""
    ways = [each.effect_scenario.checkpointing for each in part_checks]
    needed = [way for way in ways if way is not None]
    together = {name: value for way in needed for name, value in way.items()}
    return Scenario(rows=rows, train=True, checkpointing=together if needed else None)
