"""Which tokens the head of a masked language model runs on."""

from typing import Any

import torch
from torch import Tensor


def labelled_tokens(
    model: Any, states: Tensor, labels: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """In training, the states (N, D) with a label, and their labels (N); else both unchanged."""
    fraction = getattr(model.config, "max_labelled_fraction", None)
    if not 0 < (fraction or 1) <= 1:
        raise ValueError(f"max_labelled_fraction is above 0 and at most 1, not {fraction!r}")
    if labels is None or not model.training or getattr(model.config, "loss_chunk_size", None) == 0:
        return states, labels
    states, labels = states.flatten(0, -2), labels.flatten().to(states.device)
    labelled = labels != -100
    if fraction is not None:
        # The number of tokens is fixed.  Where it is too small, the loss is NaN, not wrong.
        size = -int(-fraction * labels.shape[0] // 1)
        rows = labelled.to(torch.int8).argsort(descending=True, stable=True)[:size]
        return torch.where(labelled.sum() <= size, states[rows], torch.nan), labels[rows]
    if torch.compiler.is_compiling():
        return states, labels  # only the device knows how many tokens have a label
    rows = labelled.nonzero().squeeze(1)
    return states[rows], labels[rows]
