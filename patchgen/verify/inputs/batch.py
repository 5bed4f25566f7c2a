"""A batch of random text for a tiny model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from patchgen.facts.sizes import SIZES

FIRST_WORD = 3  # tokens below are special
Padding = Literal["none", "right", "left", "short"]


@dataclass(frozen=True, slots=True)
class Batch:
    """Tokens of shape (rows, length), their labels, and which of the tokens are real."""

    input_ids: Tensor
    attention_mask: Tensor | None  # None: nothing is padded
    labels: Tensor
    real: Tensor  # bool

    def inputs(self) -> dict[str, Tensor]:
        """The arguments of a model's forward; no mask where nothing is padded."""
        given = {
            "input_ids": self.input_ids,
            "attention_mask": self.attention_mask,
            "labels": self.labels,
        }
        return {name: value for name, value in given.items() if value is not None}


def batch(padding: Padding = "none", *, rows: int = 3, length: int = 13, seed: int = 0) -> Batch:
    """Random words.  Row n has five times n tokens of padding at the given side, row 0 has none.

    "short" is padded on the right: two tokens less than all, one token, and a third of all.

    A token that follows padding has no label: a causal model would predict it from a padded token,
    whose output does not matter.
    """
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(FIRST_WORD, SIZES["vocab_size"], (rows, length), generator=draw)
    real = torch.ones(rows, length, dtype=torch.bool)
    if padding != "none":
        kept = length - 5 * torch.arange(rows)[:, None]
        if padding == "short":
            kept = torch.tensor([length - 2, 1, length // 3]).repeat(rows)[:rows, None]
        place = torch.arange(length)[None, :]
        real = place >= length - kept if padding == "left" else place < kept
    ids = ids.masked_fill(~real, SIZES["pad_token_id"])
    predicted_from_real = real & real.roll(1, dims=1)
    predicted_from_real[:, 0] = False
    labels = ids.masked_fill(~predicted_from_real, -100)
    return Batch(ids, None if padding == "none" else real.long(), labels, real)
