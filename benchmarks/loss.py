"""Times the head and its loss alone, forward and backward, beside what others do.

    python benchmarks/loss.py [--tokens 20480] [--words 128256] [--width 2048] [--dtype bfloat16]

Rows: transformers' statements, the part `loss` as it is written and with what stands between two
products compiled, torch's own `linear_cross_entropy` (2.13) and Liger's kernel where they are
installed.  They run in turn; the time of each is its least, on a CPU in seconds of the CPU.  Memory
is the most that a step holds beside states and weight.  It says how many functions torch compiled:
none, where it found no compiler.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).parent.parent))

from patchgen.parts.loss import kernels
from patchgen.parts.loss.linear import linear_losses

LOGITS = 2**27  # of a chunk, as in the part
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


# Each takes states (N, H), weight (V, H) and labels (N), and gives the mean of the losses.
def stock(states: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy((states @ weight.T).float(), labels)


def chunked(states: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    chunk = max(256, LOGITS // len(weight) // 256 * 256)
    token_weights = torch.full(labels.shape, 1 / len(labels), device=labels.device)
    _, loss, *_ = linear_losses(
        states, weight, labels, token_weights, chunk, 0.0, computes_grads=True, frozen=False
    )
    return loss


def as_written(states: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    compiled, kernels.compiled = kernels.compiled, lambda step: step
    try:
        loss = chunked(states, weight, labels)
        loss.backward()
    finally:
        kernels.compiled = compiled
    return loss


def by_torch() -> Loss | None:
    if not hasattr(F, "linear_cross_entropy"):
        return None
    options = torch.nn.LinearCrossEntropyOptions()  # without them it computes all logits
    return partial(F.linear_cross_entropy, options=options)


def by_liger(sums: torch.dtype | None = None) -> Loss | None:
    try:
        from liger_kernel.transformers import functional as liger
    except ImportError:
        return None
    return partial(liger.liger_fused_linear_cross_entropy, accum_dtype=sums)


def run_step(way: Loss, states: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    states.grad = weight.grad = None
    loss = way(states, weight, labels)
    if states.grad is None:
        loss.backward()
    return loss.detach()


def read_clock(on_gpu: bool) -> float:
    if not on_gpu:
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def find_peak(step: Callable[[], Tensor], on_gpu: bool) -> int:
    """The most bytes that a step holds beside what is there before it."""
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    events = profiler.profiler.kineto_results.events()
    changes = [event for event in events if event.name() == "[memory]"]
    held = peak = 0
    for change in sorted(changes, key=lambda event: event.start_ns()):
        held += change.nbytes()
        peak = max(peak, held)
    return peak


def main() -> None:
    """Print a row for each way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    on_gpu = torch.cuda.is_available()
    sizes = {"tokens": (20480, 1024), "words": (128256, 32064), "width": (2048, 64)}
    for name, (large, small) in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=large if on_gpu else small)
    parser.add_argument("--dtype", default="bfloat16" if on_gpu else "float32")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    device = "cuda" if on_gpu else "cpu"
    torch.manual_seed(0)
    drawn = partial(torch.randn, dtype=getattr(torch, options.dtype), device=device)
    states = drawn(options.tokens, options.width).requires_grad_()
    weight = (drawn(options.words, options.width) / options.width**0.5).requires_grad_()
    labels = torch.randint(options.words, (options.tokens,), device=device)
    ways: dict[str, Loss | None] = {
        "transformers": stock,
        "part loss, as written": as_written,
        "part loss": chunked,
        "torch": by_torch(),
        "Liger": by_liger() if on_gpu else None,
        "Liger, float32 sums": by_liger(torch.float32) if on_gpu else None,
    }
    print(f"{options.tokens} tokens, {options.words} words, width {options.width}, ", end="")
    print(f"{options.dtype}, {device}")
    steps = {}
    for name, way in ways.items():
        if way is None:
            print(f"{name:24} unavailable")
        else:
            steps[name] = partial(run_step, way, states, weight, labels)
    losses = {name: float(step()) for name, step in steps.items()}
    seconds = dict.fromkeys(steps, float("inf"))
    for _ in range(options.rounds):
        for name, step in steps.items():
            begin = read_clock(on_gpu)
            step()
            seconds[name] = min(seconds[name], read_clock(on_gpu) - begin)
    peaks = {name: find_peak(step, on_gpu) for name, step in steps.items()}
    first, *_ = steps
    for name in steps:
        times, memory = seconds[name] / seconds[first], peaks[name] / peaks[first]
        print(
            f"{name:24} {seconds[name] * 1e3:8.1f} ms {times:5.2f}  "
            f"{peaks[name] / 1e9:6.2f} GB {memory:5.2f}  loss {losses[name]:.4f}"
        )
    frames = torch._dynamo.utils.counters["frames"]
    print(f"compiled: {frames['ok']} of {frames['total']} functions")


if __name__ == "__main__":
    main()
