"""Times the head and its loss alone, forward and backward, beside what others do.

    python benchmarks/loss.py [--tokens 20480] [--words 128256] [--width 2048]

Rows: transformers' statements, the part `loss` as it is written and with what stands between two
products compiled, and Liger's kernel where it is installed.  It says how many functions torch
compiled: none, where it found no compiler.  Without a GPU it is small and in float32.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent.parent))

from patchgen.parts.loss import kernels
from patchgen.parts.loss.linear import linear_losses
from patchgen.training.rate.peak import time_runs

LOGITS = 2**27  # of a chunk, as in the part

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


# Each takes states (N, H), weight (V, H) and labels (N), and gives the mean of the losses.
def stock(states: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy((states @ weight.T).float(), labels)


def chunked(states: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    chunk = max(256, LOGITS // len(weight) // 256 * 256)
    return linear_losses(states, weight, labels, chunk)[0].mean()


def as_written(states: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    compiled, kernels.compiled = kernels.compiled, lambda step: step
    try:
        loss = chunked(states, weight, labels)
        loss.backward()
    finally:
        kernels.compiled = compiled
    return loss


def by_liger(**given: Any) -> Loss | None:
    try:
        from liger_kernel.transformers import functional as liger
    except ImportError:
        return None
    return partial(liger.liger_fused_linear_cross_entropy, **given)


def main() -> None:
    """Print a row for each way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    on_gpu = torch.cuda.is_available()
    for name, large, small in (
        ("tokens", 20480, 1024),
        ("words", 128256, 32064),
        ("width", 2048, 64),
    ):
        parser.add_argument(f"--{name}", type=int, default=large if on_gpu else small)
    options = parser.parse_args()
    device, dtype = ("cuda", torch.bfloat16) if on_gpu else ("cpu", torch.float32)
    torch.manual_seed(0)
    drawn = partial(torch.randn, dtype=dtype, device=device)
    states = drawn(options.tokens, options.width).requires_grad_()
    weight = (drawn(options.words, options.width) / options.width**0.5).requires_grad_()
    labels = torch.randint(options.words, (options.tokens,), device=device)
    ways: dict[str, Loss | None] = {
        "transformers": stock,
        "part loss, as written": as_written,
        "part loss": chunked,
        "Liger": by_liger() if on_gpu else None,
        "Liger, float32 sums": by_liger(accum_dtype=torch.float32) if on_gpu else None,
    }
    print(
        f"{options.tokens} tokens, {options.words} words, width {options.width}, {dtype}, {device}"
    )
    for name, way in ways.items():
        if way is None:
            print(f"{name:24} unavailable")
            continue

        def step(way: Loss = way) -> Tensor:
            states.grad = weight.grad = None
            loss = way(states, weight, labels)
            if loss.requires_grad and states.grad is None:
                loss.backward()
            return loss

        loss = float(step().detach())
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated() if on_gpu else 0
        seconds = statistics.median(time_runs(step, 5, device))
        peak = f"{(torch.cuda.max_memory_allocated() - held) / 1e9:6.2f} GB" if on_gpu else ""
        print(f"{name:24} {seconds * 1e3:8.1f} ms {peak}  loss {loss:.4f}", flush=True)
    frames = torch._dynamo.utils.counters["frames"]
    print(f"compiled: {frames['ok']} of {frames['total']} functions")


if __name__ == "__main__":
    main()
