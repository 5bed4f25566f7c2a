"""One step of training, in a contestant's precision and number of backward passes."""

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
    """An entrant with its optimizer."""

    prepared: PreparedEntry
    optimizer: torch.optim.Optimizer
    device: str
    scaler: Any = None  # of gradients in float16
    done: int = 0  # steps

    def step(self) -> Tensor:
        """Forward, backward, update, gradients gone; the loss, which nobody waits for."""
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
        """Those that take turns."""
        return self.prepared.batch, *self.prepared.more

    def backward(self, batch: Batch | None = None) -> Tensor:
        """The mean loss of the (first) batch, its gradients in the weights: not scaled up, but under a scaler."""
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
    """Autocast where the precision says so."""
    narrow = autocast_to(precision)
    dtype = getattr(torch, narrow or "bfloat16")
    return torch.autocast(device.partition(":")[0], dtype, enabled=bool(narrow))


def products(precision: Precision) -> AbstractContextManager[None]:
    """Products of float32 in full, or by TF32 where the precision says so."""
    return allow_tf32(precision == "tf32")
