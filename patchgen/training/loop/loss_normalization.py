"""Finds models whose loss is a mean over their own batch only.

Trainer passes the number of labels in a whole step (`num_items_in_batch`), so that the losses of
several batches add up to the mean over all of them.  It assumes that every model with keyword
arguments uses the number.  Some ignore it, such as BERT's, and then a step of two batches has twice
the loss and twice the gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from patchgen.training.loop.rows import Row

SHORT = 16  # tokens


def shortened(rows: Sequence[Row]) -> list[Row]:
    """Return the first tokens of each row: enough for this question, at little cost."""
    return [
        {name: value[:SHORT] if isinstance(value, list) else value for name, value in row.items()}
        for row in rows
    ]


def ignores_label_count(model: Any, batch: Mapping[str, Any]) -> bool:
    """Return whether the loss stays the same for another number of labels, by trying it."""
    device = next(model.parameters()).device
    given = {name: value.to(device) for name, value in batch.items()}
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            once, twice = (
                float(model(**given, num_items_in_batch=torch.tensor(n, device=device)).loss)
                for n in (1, 2)
            )
    except TypeError:  # it takes no such keyword
        return True
    finally:
        model.train(was_training)
    return twice > 0.75 * once
