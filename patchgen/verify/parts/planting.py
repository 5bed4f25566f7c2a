"""Helpers that plant an error: they replace a function while a context is open.

errors("causal_loss", ("scaled", "logits are twice what they are", scaled))
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from transformers import PreTrainedModel

from patchgen.verify.parts.part_check import PairFacts, Plant, PlantedError
from patchgen.verify.parts.scenario import Scenario

_FULL = Scenario()


@contextmanager
def replaced(owner: object, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """Replace the function or method `owner.name` by `make(its old value)`, and restore it on exit.

    Raises AttributeError if it does not exist.  An error that changes nothing must not look like an
    error that verify cannot see.
    """
    original = vars(owner)[name] if name in vars(owner) else getattr(owner, name)
    setattr(owner, name, make(original))
    try:
        yield
    finally:
        setattr(owner, name, original)


def around(name: str, wrong: Callable[..., Any], *, within: str | None = None) -> Plant:
    """For `PlantedError.apply`: call `wrong(f, *args)` for each call `f(*args)` of a function.

    `name` is a function of the generated module, or a method of its class `within`.
    """

    def apply(model: PreTrainedModel) -> AbstractContextManager[None]:
        module = sys.modules[type(model).__module__]
        owner = module if within is None else getattr(module, within)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *args, **kwargs: wrong(original, *args, **kwargs)

        return replaced(owner, name, make)

    return apply


def defines(*names: str) -> Callable[[PairFacts], bool]:
    """For `PlantedError.fits`: whether the generated module has all these functions or classes."""
    return lambda facts: all(hasattr(facts.module, name) for name in names)


def errors(
    function: str,
    *table: tuple[str, str, Callable[..., Any]],
    scenario: Scenario = _FULL,
    within: str | None = None,
    fits: Callable[[PairFacts], bool] | None = None,
) -> tuple[PlantedError, ...]:
    """Errors around one function, each with its name, what it says and the wrong function.

    They fit where the module has the function, or the class, unless `fits` says where.
    """
    fits = fits or defines(within or function)
    return tuple(
        PlantedError(name, says, around(function, wrong, within=within), scenario, fits)
        for name, says, wrong in table
    )
