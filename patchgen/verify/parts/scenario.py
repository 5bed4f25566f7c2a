"""The conditions that one training step runs under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Rows = Literal["full", "right", "left", "packed", "short", "several"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """The conditions that one training step runs under."""

    # Where rows are padded.  "packed": each row has two texts, which `position_ids` tell apart.
    # "several": one row has one text, one two, and one three.  "short": no row is full, and one has
    # one token.
    rows: Rows = "full"
    train: bool = False
    dropout: float = 0.0  # for every dropout rate of the configuration
    # `gradient_checkpointing_kwargs` of the variant; None: no checkpointing.
    checkpointing: Mapping[str, Any] | None = None
    # Micro-batches.  Each loss is divided by the number of labels in all of them.
    accumulate: int = 1
    autocast: bool = False  # to bfloat16; weights keep their dtype
    labels: bool = True
    states: bool = True  # ask for hidden states
    length: int | None = None  # of the text; None: the usual length
    ways: tuple[str, ...] = ()  # other ways to call the model: keys of `inputs.calls`
