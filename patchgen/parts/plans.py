"""The plans of a model by which transformers splits it over processes, where a part puts other modules into it.

A model gathers its plans in `post_init`: those of its class, of its configuration and of the models in it.  A part
that renames, fuses or replaces layers puts its own rules there in the place of the parent's, or refuses the engine, so
that nothing stays whole on every process without a word.
"""

from typing import Any


def starred(path: str) -> str:
    """`path` as plans write it: the number of a layer is `*`."""
    return ".".join("*" if each.isdigit() else each for each in path.split("."))


def refuse_plan(model: Any, engine: str, why: str) -> None:
    """Leave `model` without a plan for `engine` ("tp", "ep"), so that transformers refuses it; `why` is for people."""
    setattr(model, f"_{engine}_plan", {})
    model._plans_refused = {**getattr(model, "_plans_refused", {}), engine: why}


def refused_within(model: Any, engine: str) -> str:
    """Why a model inside `model` has no plan for `engine`; empty where none says so."""
    told = (getattr(module, "_plans_refused", {}) for module in model.modules())
    return next((reasons[engine] for reasons in told if engine in reasons), "")
