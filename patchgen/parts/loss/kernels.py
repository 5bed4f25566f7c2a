"""What happens to logits between two products, in one kernel each.

Inductor compiles it when there first are 4 million logits: 15 seconds on a CPU, once for each
dtype; torch keeps what it compiled on disk.  Where torch finds no compiler it warns, and runs what
is written here.
"""

from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

# Tiles of two dimensions: no division for each place, and a CPU computes eight at once.
compiled = cache(partial(torch.compile, dynamic=True, options={"triton.prefer_nd_tiling": True}))


def in_one_kernel(step: Any, logits: Tensor, *operands: Any) -> Any:
    """`step`, compiled where that pays, and where torch finds a compiler."""
    if logits.numel() < 2**22:
        return step(logits, *operands)
    with torch._dynamo.config.patch(suppress_errors=True, fail_on_recompile_limit_hit=False):
        return compiled(step)(logits, *operands)


def losses_and_grads(
    logits: Tensor, labels: Tensor, token_weights: Tensor, cap: float, computes_grads: bool
) -> Tensor:
    """The cross entropy of each row; `logits` become their gradient: no tensor is larger."""
    wide = logits.to(token_weights.dtype)
    tanh: Any = torch.tanh(wide / cap) if cap else 0.0
    capped: Tensor = cap * tanh if cap else wide
    log_sums = capped.logsumexp(-1)
    label_logits = capped.gather(-1, labels[:, None]).squeeze(-1)
    if computes_grads:
        grad = (capped - log_sums[:, None]).exp_()
        words = torch.arange(logits.shape[1], device=logits.device)
        grad.sub_((words == labels[:, None]).to(grad.dtype))
        logits.copy_(grad.mul_(token_weights[:, None] * (1 - tanh**2)))
    return log_sums - label_logits
