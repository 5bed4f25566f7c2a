"""Log-probabilities of given tokens and entropies, without logits: for DPO and GRPO.

    out = model(input_ids, attention_mask=mask, log_probs_of=tokens, temperature=0.7)
    out.log_probs, out.entropy    # (B, L), in float32, both with gradients

`tokens` are (B, L): at each place the token whose probability is wanted there, or a negative number
where none is: its log-probability is 0.  Of a causal model the next tokens are
`input_ids.roll(-1, 1)`, and the last place has none.  With `logits_to_keep` they are (B, places
that are kept).  This is `selective_log_softmax(logits / temperature, tokens)` of TRL, and what the
fused heads of verl return; neither labels nor a loss are needed, and losses of a router are left to
who wants them.

Logits exist for one chunk of tokens at a time, and are computed again in the backward pass;
`config.loss_chunk_size` sets the tokens in a chunk, else it has 2**27 logits.  The head is called
as a module, so that adapters, quantized weights and hooks of FSDP and ZeRO work as ever; what the
parent does to its logits, such as a cap, is done to those of a chunk.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers.utils import ModelOutput


@dataclass
class LogProbsOutput(ModelOutput):
    """Log-probabilities of the tokens that were asked for, and entropies: (B, L)."""

    log_probs: Tensor | None = None
    entropy: Tensor | None = None
    past_key_values: Any = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


def log_probs_output(
    model: Any,
    states: Tensor,
    outputs: Any,
    *,
    log_probs_of: Tensor,
    temperature: float = 1.0,
    **kwargs: Any,
) -> LogProbsOutput:
    if log_probs_of.shape != states.shape[:-1]:
        places = tuple(states.shape[:-1])
        raise ValueError(f"log_probs_of is {tuple(log_probs_of.shape)}, and its places {places}")
    words = model.get_output_embeddings().weight.shape[0]
    chunk = getattr(model.config, "loss_chunk_size", None) or max(256, 2**27 // words)
    tokens = log_probs_of.to(states.device).flatten()
    pairs = [
        checkpoint(log_probs_of_chunk, model, some, own, temperature, use_reentrant=False)
        for some, own in zip(states.flatten(0, -2).split(chunk), tokens.split(chunk), strict=True)
    ]
    log_probs, entropy = (
        torch.cat(each).view(log_probs_of.shape) for each in zip(*pairs, strict=True)
    )
    return LogProbsOutput(
        log_probs,
        entropy,
        outputs.get("past_key_values"),
        outputs.get("hidden_states"),
        outputs.get("attentions"),
    )


def log_probs_of_chunk(
    model: Any, states: Tensor, tokens: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    logits = model.logits_of(states)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    log_sums = logits.logsumexp(-1)
    wanted = logits.gather(-1, tokens.clamp(min=0)[:, None]).squeeze(-1)
    log_probs = (wanted - log_sums).where(tokens >= 0, 0)
    return log_probs, log_sums - (logits.softmax(-1) * logits).sum(-1)
