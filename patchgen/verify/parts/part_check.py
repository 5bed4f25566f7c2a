"""What a part promises of the models that it is put into, and how `patchgen verify` checks it.

`patchgen/verify/parts/PART.py` defines the `PartCheck` of a part as `PART_CHECK`.  A variant of
several parts is checked with all of theirs: the loosest bound, everything that any of them hides,
every effect and every planted error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from patchgen.verify.compare.tolerance import Bound
from patchgen.verify.observe.evidence import Evidence

Rows = Literal["full", "right", "left", "packed"]
Observation = Mapping[str, Tensor]  # by name: see `parity.observe`


@dataclass(frozen=True, slots=True)
class Scenario:
    """Under what one step of training runs."""

    rows: Rows = "full"  # where rows are padded; packed: two texts in each, told by `position_ids`
    train: bool = False
    dropout: float = 0.0  # of every rate that the configuration has
    checkpointing: Mapping[str, Any] | None = (
        None  # gradient_checkpointing_kwargs of the variant; None: off
    )
    accumulate: int = (
        1  # micro-batches whose loss is divided by the number of labels in all of them
    )
    autocast: bool = False  # to bfloat16, weights as they are
    labels: bool = True
    states: bool = True  # hidden states are asked for
    length: int | None = None  # of the text; None: as usual
    ways: tuple[str, ...] = ()  # other ways to call the model: names in `ways`


@dataclass(frozen=True, slots=True)
class PairFacts:
    """One class of a variant beside the parent's class of the same name, tiny, and what both are given."""

    parent_class: type[PreTrainedModel]
    variant_class: type[PreTrainedModel]
    config: PreTrainedConfig  # the parent's
    inputs: Mapping[str, Tensor]  # of the forward, labels included, where rows are full
    lengths: frozenset[
        int
    ]  # of the sequences in them: what attention may run over; no other size is equal to one
    causal: bool  # measured: no output of the parent depends on a later token

    @property
    def module(self) -> ModuleType:
        """The generated module."""
        return sys.modules[self.variant_class.__module__]


@dataclass(frozen=True, slots=True)
class Route:
    """A computation of the parent that a variant is held against: settings of both sides, and the bound between them.

    Settings are changes of the tiny configuration, `attn_implementation` included.
    """

    name: str
    bound: Bound
    parent: Mapping[str, Any] = field(default_factory=dict)
    variant: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hidden:
    """Observations (a pattern of `fnmatch`) that the variant documents it does not give in some scenes."""

    pattern: str  # "logits", "attentions.*"
    why: str
    when: Callable[[Scenario], bool] = lambda scenario: True


def anywhere(facts: PairFacts) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class PlantedError:
    """An error that verify must see in `scenario`: while `apply(model)` is entered, the variant is wrong.

    The model is thrown away afterwards, so weights may be changed in place; whatever is changed in a module or a
    class is put back on exit (`replaced`, `around`).  `fits` says in which specimens the error changes what is
    computed at all.
    """

    name: str  # "mask off by one"
    says: str
    apply: Callable[[PreTrainedModel], AbstractContextManager[None]]
    scenario: Scenario = Scenario()
    fits: Callable[[PairFacts], bool] = anywhere


def reload(
    parent: PreTrainedModel,
    variant_class: type[PreTrainedModel],
    folder: Path,
    settings: Mapping[str, Any],
) -> PreTrainedModel:
    """The variant from the parent's checkpoint, no key missing and none unexpected.

    Raises ValueError, which names the keys.
    """
    parent.save_pretrained(folder)
    return load_strictly(variant_class, folder, dtype=parent.dtype, **settings)


def load_strictly(model_class: type[PreTrainedModel], folder: Path, **how: Any) -> PreTrainedModel:
    """`from_pretrained` with nothing missing, unexpected, mismatched or failed; else ValueError."""
    model, report = model_class.from_pretrained(folder, output_loading_info=True, **how)
    wrong = {kind: sorted(map(str, keys)) for kind, keys in report.items() if keys}
    if wrong:
        raise ValueError(f"{model_class.__name__} does not load what was saved: {wrong}")
    return model


def keep_names(observation: Observation, variant: PreTrainedModel) -> Observation:
    return observation


Build = Callable[[PreTrainedModel, type[PreTrainedModel], Path, Mapping[str, Any]], PreTrainedModel]


@dataclass(frozen=True, slots=True)
class PartCheck:
    """What one part claims.

    `routes` gives, for a class of the parent, the computations to compare with, from the closest to the most
    independent: one at least.  Where several claims meet, their first routes are one, and their last.

    `effect` gets what the parent ran and what the variant ran under `effect_scenario` (the parent without checkpointing,
    along its first route) and gives a sentence for each thing that did not happen; nothing: the effect was shown.

    `build` makes the variant from the parent, which is on the CPU and has the weights of `lab.weights`, in the empty
    folder given; the settings are the route's.  At most one of a variant's claims has one of its own.  `terms` gives
    the observation of a variant in the parent's names: fused weights split, gradients of experts summed.
    """

    part: str
    says: str  # one sentence, for the report
    routes: Callable[[type[PreTrainedModel]], tuple[Route, ...]]
    effect: Callable[[Evidence, Evidence, PairFacts], Iterable[str]]
    planted_errors: tuple[PlantedError, ...]
    effect_scenario: Scenario = Scenario(train=True)
    hides: tuple[Hidden, ...] = ()
    build: Build = reload
    terms: Callable[[Observation, PreTrainedModel], Observation] = keep_names
    # What `attn_implementation` may be: others are a ValueError when the model is built.  None: as the parent.
    attentions: tuple[str, ...] | None = None
    # Whether others are what the flags of the class say: run, a ValueError, or an ImportError where not installed.
    by_flags: bool = False
    # Of those, the one that attention weights have to be asked of.  None: any gives them.
    weights_under: str | None = None
    # The `gradient_checkpointing_kwargs` that verify runs, beside none.
    checkpointing: tuple[Mapping[str, Any], ...] = ({},)
    # Whether outputs have dtypes of their own in a scene, where they are documented to.
    own_dtypes: Callable[[Scenario], bool] = lambda scenario: False
    # Whether random numbers are drawn in the parent's order, so that dropout can be compared.
    same_rng_order: bool = True
    # Whether the part is at work where hidden states are asked for.
    works_with_hidden_states: bool = True


# --- for plants


@contextmanager
def replaced(owner: object, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """`owner.name`, a function of a module or a method of a class, is `make(what it was)`.

    Raises AttributeError where there is none: a plant that changes nothing must not look like one that is not seen.
    """
    was = vars(owner)[name] if name in vars(owner) else getattr(owner, name)
    setattr(owner, name, make(was))
    try:
        yield
    finally:
        setattr(owner, name, was)


def around(
    name: str, wrong: Callable[..., Any], *, within: str | None = None
) -> Callable[[PreTrainedModel], AbstractContextManager[None]]:
    """For `PlantedError.apply`: every call `f(*args)` of the generated module's function `name` is `wrong(f, *args)`.

    With `within`, of the method `name` of the generated module's class of that name.
    """

    def apply(model: PreTrainedModel) -> AbstractContextManager[None]:
        module = sys.modules[type(model).__module__]
        owner = module if within is None else getattr(module, within)

        def make(was: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *args, **kwargs: wrong(was, *args, **kwargs)

        return replaced(owner, name, make)

    return apply


def defines(*names: str) -> Callable[[PairFacts], bool]:
    """For `PlantedError.fits`: the generated module has each of these functions or classes."""
    return lambda facts: all(hasattr(facts.module, name) for name in names)
