"""Is a model's loss a mean over its own batch, whatever it is told of the others?

Trainer tells a model how many labels a whole step has (`num_items_in_batch`), so that the losses of its batches, on
whatever process, add up to the mean over all.  It believes every model that takes keywords; some pass this one over,
among them those of BERT, and then a step of two batches has twice the loss and twice the gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from patchgen.training.loop.rows import Row

SHORT = 16  # tokens


def shortened(rows: Sequence[Row]) -> list[Row]:
    """The first tokens of rows: what a loss is a mean of is seen from few, at no cost beside a step's."""
    return [
        {name: value[:SHORT] if isinstance(value, list) else value for name, value in row.items()}
        for row in rows
    ]


def ignores_label_count(model: Any, batch: Mapping[str, Any]) -> bool:
    """Whether the loss stays what it is when it is to be divided by twice as much.  Asked of the model itself."""
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
