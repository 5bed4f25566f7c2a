"""Let a block of another model begin as it does in its own model.

    class LlamaMLP(mixtral.MixtralSparseMoeBlock): ...

`_init_weights` of Llama knows of no experts, so that of Mixtral is called for them, with this
model's configuration.  What Llama's asks for by name is initialised by Llama's.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

from transformers import PreTrainedModel

from patchgen.verifying.oracle.running import Meaning


@contextmanager
def blocks_initialised(meaning: Meaning) -> Iterator[None]:
    """A context in which each block begins as in its own model."""
    initialise: Any = PreTrainedModel._initialize_weights

    def as_at_home(model: Any, module: Any, *custom: bool) -> None:
        givers = _list_givers(meaning, type(model), type(module))
        if len(givers) == 1:
            # `super()` in a method of the giver wants one of its instances.
            stand_in: Any = object.__new__(givers[0])
            vars(stand_in).update(vars(model))
            # A field may be missing in this configuration.
            with suppress(AttributeError):
                return initialise(stand_in, module, *custom)
        initialise(model, module, *custom)

    with patch.object(PreTrainedModel, "_initialize_weights", as_at_home):
        yield


def _list_givers(meaning: Meaning, model: type, kind: type) -> list[type]:
    """The base models of other parents that a class is from, unless `model` initialises it."""
    modules = {each.__module__ for each in kind.__mro__}
    modules -= {each.__module__ for each in model.__mro__}
    found = []
    for copy in meaning.copies.values():
        if copy.module.__name__ in modules and not _is_named(kind, model):
            values = copy.originals.values()
            found += [each for each in values if PreTrainedModel in getattr(each, "__bases__", ())]
    return found


def _is_named(kind: type, model: type) -> bool:
    """Whether an `_init_weights` of the model reads a name that means the class."""
    for owner in model.__mro__:
        method = inspect.unwrap(vars(owner).get("_init_weights", _is_named))
        if any(method.__globals__.get(name) is kind for name in method.__code__.co_names):
            return True
    return False
