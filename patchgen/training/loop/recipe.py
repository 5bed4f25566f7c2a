"""The switches of `patchgen train` as a value that is saved and loaded.

A recipe holds all that the result of a run depends on, except the machine and the releases of
packages.  It may ask for what is not possible: `machine` and the readers of each switch check that.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

TASKS = ("causal-lm", "masked-lm", "classification")
PACKINGS = ("none", "isolated", "concatenated")
AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The switches, with the names and defaults of the command line."""

    model: str
    task: str = "causal-lm"
    # The text, and how it becomes rows.
    data: tuple[str, ...] = ()  # none: the text that patchgen ships
    text_column: str = "text"
    label_column: str = "label"
    vocabulary: int = 1024  # of a tokenizer that is trained here
    length: int = 128  # tokens of a row
    packing: str = "none"
    masked: float = 0.15  # of the tokens, in masked-lm
    # The model.
    start: str = ""  # a checkpoint
    tiny: bool = False
    config: tuple[str, ...] = ()  # "key=value"
    lora: str = ""
    # The training.
    epochs: float = 3.0
    steps: int = 0  # 0: as the epochs say
    batch_size: str = "8"
    memory: float = 0.0  # GiB that `--batch-size auto` may fill; 0: what is free
    grad_accum: int = 1
    learning_rate: float = 1e-3
    schedule: str = "linear"
    warmup: float = 0.0
    weight_decay: float = 0.0
    optim: str = "adamw_torch_fused"
    precision: str = "fp32"
    checkpoint: str = "none"
    compile: str = "none"
    loader: str = ""
    seed: int = 0
    deterministic: bool = False
    device: str = AUTO
    engine: str = AUTO
    # Logging and saving, in steps; below 1, a share of all steps.
    log_every: float = 0.02
    eval_every: float = 0.2
    save_every: float = 0.25
    keep: int = 2

    def as_json(self) -> str:
        """Return the text that `recipe_of` reads."""
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"

    @property
    def asked_batch(self) -> int | None:
        """Return the rows of a step on one device; None for the largest batch that fits."""
        return None if self.batch_size == AUTO else int(self.batch_size)


def recipe_of(text: str) -> Recipe:
    """Return the recipe that `as_json` wrote; raise ValueError for any other text."""
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError("it is no object of JSON")
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    try:
        return Recipe(**{**values, **lists})
    except TypeError as error:
        raise ValueError(str(error)) from error
