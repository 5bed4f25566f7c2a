"""One training step in an entry's precision, with its number of backward passes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from patchgen.training.bench.entry import Precision
from patchgen.training.bench.setup import PreparedEntry
from patchgen.training.bench.texts import Batch
from patchgen.training.precision import autocast_to
from patchgen.training.rate.peak import allow_tf32


@dataclass(slots=True)
class Trainer:
    """A prepared entry with its optimizer."""

    prepared: PreparedEntry
    optimizer: torch.optim.Optimizer
    device: str
    scaler: Any = None  # of gradients in float16
    done: int = 0  # steps

    def step(self) -> Tensor:
        """Run forward, backward and update, drop the gradients, and return the loss without
        waiting.
        """
        loss = self.backward(self.batches[self.done % len(self.batches)])
        self.done += 1
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    @property
    def batches(self) -> tuple[Batch, ...]:
        """Return the batches that take turns."""
        return self.prepared.batch, *self.prepared.more

    def backward(self, batch: Batch | None = None) -> Tensor:
        """Compute the mean loss of the (first) batch and its gradients, scaled only by a scaler."""
        entry = self.prepared.entry
        several = entry.accumulate
        total = torch.zeros((), device=self.device)
        for part in (batch or self.prepared.batch).parts(several):
            with autocast(entry.precision, self.device):
                loss = self.prepared.model(**part).loss / several
            (loss if self.scaler is None else self.scaler.scale(loss)).backward()
            total += loss.detach().float()
        return total


def autocast(precision: Precision, device: str) -> Any:
    """Return autocast to the dtype of the precision, if any."""
    narrow = autocast_to(precision)
    dtype = getattr(torch, narrow or "bfloat16")
    return torch.autocast(device.partition(":")[0], dtype, enabled=bool(narrow))


def products(precision: Precision) -> AbstractContextManager[None]:
    """Compute float32 products in full, or with TF32 where the precision says so."""
    return allow_tf32(precision == "tf32")
