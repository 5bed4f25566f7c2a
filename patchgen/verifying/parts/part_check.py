"""What a part promises about its models, and how `patchgen verify` checks that.

Each part has a `PartCheck` in the table of `combine`.  A variant of several parts is checked with
all of theirs: the loosest bound, everything that any of them hides, and every effect.  Errors are
planted in attention alone; `verify.mutation` plants many in the changed lines of any variant.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from patchgen.verifying.differences import Bound
from patchgen.verifying.observe.evidence import Evidence

Rows = Literal["full", "right", "left", "packed", "short", "several"]
# Outputs and gradients by name: see `observe.step.observe_step`.
Observation = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Scenario:
    """The conditions that one training step runs under."""

    # Where rows are padded.  "packed": two texts a row, which `position_ids` tell apart; "several":
    # one to three.  "short": no row is full, and one has one token.
    rows: Rows = "full"
    train: bool = False
    dropout: float = 0.0  # for every dropout rate of the configuration
    # `gradient_checkpointing_kwargs` of the variant; None: no checkpointing.
    checkpointing: Mapping[str, Any] | None = None
    # Micro-batches.  Each loss is divided by the number of labels in all of them.
    accumulate: int = 1
    autocast: bool = False  # weights keep their dtype
    autocast_to: torch.dtype = torch.bfloat16
    labels: bool = True
    states: bool = True  # ask for hidden states
    length: int | None = None  # of the text; None: the usual length
    ways: tuple[str, ...] = ()  # other ways to call the model: see `inputs.arguments`


@dataclass(frozen=True, slots=True)
class PairFacts:
    """What part checks need to know about a tiny variant and its parent."""

    parent_class: type[PreTrainedModel]
    variant_class: type[PreTrainedModel]
    config: PreTrainedConfig  # the parent's
    inputs: Mapping[str, Tensor]  # of the forward, with labels and without padding
    # Lengths of the sequences that attention may run over.  No other size is equal to one of them.
    lengths: frozenset[int]
    causal: bool  # measured: no output of the parent depends on a later token

    @property
    def module(self) -> ModuleType:
        return sys.modules[self.variant_class.__module__]


@dataclass(frozen=True, slots=True)
class Route:
    """One way for the parent to compute its outputs, to compare the variant with.

    `parent` and `variant` are changes of the tiny configuration of each side, `attn_implementation`
    included.  `bound` is how far the two sides may be apart.
    """

    name: str
    bound: Bound
    parent: Mapping[str, Any] = field(default_factory=dict)
    variant: Mapping[str, Any] = field(default_factory=dict)


# --- planted errors


# A context in which a model has an error.
Plant = Callable[[PreTrainedModel], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class PlantedError:
    """An error that verify must see in `scenario`: the variant is wrong while `apply` is open.

    The model is thrown away afterwards.  `fits` tells whether the error changes anything in it.
    """

    name: str  # "mask off by one"
    says: str
    apply: Plant
    scenario: Scenario = Scenario()
    fits: Callable[[PairFacts], bool] = lambda facts: True


@contextmanager
def replaced(owner: object, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """`owner.name` is `make(its old value)` inside; AttributeError if it does not exist."""
    original = vars(owner)[name] if name in vars(owner) else getattr(owner, name)
    setattr(owner, name, make(original))
    try:
        yield
    finally:
        setattr(owner, name, original)


# --- checkpoints


def reload(
    parent: PreTrainedModel,
    variant_class: type[PreTrainedModel],
    folder: Path,
    settings: Mapping[str, Any],
) -> PreTrainedModel:
    """Load the variant from the parent's checkpoint.  Raises DoesNotLoad."""
    parent.save_pretrained(folder)
    return load_strictly(variant_class, folder, dtype=parent.dtype, **settings)


class DoesNotLoad(ValueError):
    def __init__(self, wrong: Mapping[str, list[str]], unset: Iterable[str] = ()) -> None:
        missing, unset = wrong.get("missing_keys", ()), frozenset(unset)
        said = {
            "is in no checkpoint and `_init_weights` does not set it": [
                name for name in missing if name in unset
            ],
            "is in no checkpoint": [name for name in missing if name not in unset],
            "is in the checkpoint and not in the model": wrong.get("unexpected_keys"),
            "has another shape in the checkpoint": wrong.get("mismatched_keys"),
            "is an error of loading": wrong.get("error_msgs"),
        }
        super().__init__("; ".join(f"{shorten_names(n)} {what}" for what, n in said.items() if n))


_NAMED = 3


def shorten_names(names: Iterable[str]) -> str:
    """A list of parameters, those of all layers as one: "`model.layers.*.q_norm.weight`"."""
    short = list(dict.fromkeys(re.sub(r"\.\d+\.", ".*.", name) for name in names))
    more = f" (and {len(short) - _NAMED} more)" if len(short) > _NAMED else ""
    return ", ".join(f"`{name}`" for name in short[:_NAMED]) + more


@contextmanager
def nan_where_not_drawn() -> Iterator[None]:
    """Let `torch.empty` give NaN, where freed memory might pass for weights that were drawn."""
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)
        torch.utils.deterministic.fill_uninitialized_memory = filled


def load_strictly(
    model_class: type[PreTrainedModel], folder: Path, **options: Any
) -> PreTrainedModel:
    """`from_pretrained`, but a missing, unexpected, mismatched or failed key is `DoesNotLoad`."""
    with nan_where_not_drawn():
        model, report = model_class.from_pretrained(folder, output_loading_info=True, **options)
    wrong = {kind: sorted(map(str, keys)) for kind, keys in report.items() if keys}
    if wrong:
        here = dict(model.named_parameters())
        missing = (name for name in wrong.get("missing_keys", ()) if name in here)
        raise DoesNotLoad(wrong, [name for name in missing if here[name].isnan().any()])
    return model


@dataclass(frozen=True, slots=True)
class Promise:
    """A case of its own that a part asks for; `kind` and `detail` as of a `Case`."""

    name: str
    kind: str
    dtype: str = "float32"
    detail: str = ""
    scenario: Scenario = Scenario()
    # Whether a head has the case, by its name and whether it is the main one.
    fits: Callable[[str, bool], bool] = lambda head, is_main: True


Build = Callable[[PreTrainedModel, type[PreTrainedModel], Path, Mapping[str, Any]], PreTrainedModel]


@dataclass(frozen=True, slots=True)
class PartCheck:
    part: str
    # For a class of the parent, routes to compare with, from the closest to the most independent.
    routes: Callable[[type[PreTrainedModel]], tuple[Route, ...]]
    # From what both ran under `effect_scenario`, a sentence for each thing that did not happen.
    effect: Callable[[Evidence, Evidence, PairFacts], Iterable[str]]
    planted_errors: tuple[PlantedError, ...] = ()
    effect_scenario: Scenario = Scenario(train=True)
    effect_changes: Mapping[str, Any] = field(default_factory=dict)  # of the configuration
    # Words of a ValueError that the variant raises on purpose, and the way of calling it.
    refuses: tuple[tuple[str, str], ...] = ()
    # Whether the loss is NaN on purpose, under these changes of the configuration.
    refuses_a_loss: Callable[[Mapping[str, Any]], bool] = lambda changes: False
    # Make the variant from the parent in an empty folder; one part at most has its own way.
    build: Build = reload
    # Change the built parent, so that it computes what the variant does.
    prepare: Callable[[PreTrainedModel], object] = lambda parent: None
    # Convert an observation of the variant to the parent's names: sum the gradients of experts.
    terms: Callable[[Observation, PreTrainedModel], Observation] = (
        lambda observed, variant: observed
    )
    # Accepted values of `attn_implementation`, others are a ValueError; None: those of the parent.
    attentions: tuple[str, ...] | None = None
    # Other values follow the flags of the class: they run, or are a ValueError, or an ImportError
    # if a package is not installed.  Eager attention alone returns attention weights.
    by_flags: bool = False
    # The `gradient_checkpointing_kwargs` to try, beside none.
    checkpointing: tuple[Mapping[str, Any], ...] = ({},)
    # Why graphs may end where the parent's do not: first lines of torch's reasons.
    ends_graphs: tuple[str, ...] = ()
    # Whether outputs have other dtypes than the parent's in a scenario, as documented.
    own_dtypes: Callable[[Scenario], bool] = lambda scenario: False
    same_rng_order: bool = True  # as the parent's, so that dropout can be compared
    works_with_hidden_states: bool = True  # if they are requested
    promises: tuple[Promise, ...] = ()
    without: frozenset[str] = (
        frozenset()
    )  # cases that compare nothing here, by the end of their names
    # Whether positions keep texts in one row apart, in all that is given for a text; and whether
    # they do beside a mask of ones.
    keeps_texts_apart: bool = False
    keeps_texts_apart_with_a_mask: bool = False


def beside_eager(
    name: str, bound: Bound, parent: Mapping[str, Any], variant: Mapping[str, Any]
) -> tuple[Route, Route]:
    """Both by their default attention, and both by eager attention."""
    eager = {"attn_implementation": "eager"}
    under = Route(f"{name} under eager", bound, {**parent, **eager}, {**variant, **eager})
    return Route(name, bound, parent, variant), under
