"""logprobs: a head gives what `log_softmax` of the parent's logits gives, and keeps no logits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from patchgen.verifying.differences import EQUAL
from patchgen.verifying.inputs.arguments import CannotBuild
from patchgen.verifying.observe.evidence import Evidence
from patchgen.verifying.parts.part_check import PairFacts, PartCheck, beside_eager

TEMPERATURE = 0.7
TOLERANCE = 1e-4


def logprobs_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Log-probabilities, entropies and the gradients of both, in chunks of five tokens."""
    before: Any = parent.paths[0][0]
    model: Any = variant.paths[0][0]
    if not hasattr(model, "logits_of") or "labels" not in facts.inputs:
        raise CannotBuild("it has no head over words")
    given: dict[str, Any] = {n: t for n, t in facts.inputs.items() if n != "labels"}
    tokens = facts.inputs["labels"]
    if before.config.is_encoder_decoder:  # some make these of labels
        given.setdefault("decoder_input_ids", tokens.clamp(min=0))
    kept: list[torch.Size] = []

    def note(tensor: Tensor) -> Tensor:
        kept.append(tensor.shape)
        return tensor

    logits = before.eval()(**given, use_cache=False).logits.double() / TEMPERATURE
    if tokens.dim() < 2 or logits.shape[:-1] != tokens.shape:
        raise CannotBuild("its head is not over words")
    every = logits.log_softmax(-1)
    wanted = every.gather(-1, tokens.clamp(min=0)[..., None])[..., 0].where(tokens >= 0, 0)
    entropy = -(every.exp() * every).sum(-1)
    chunked = getattr(model.config, "loss_chunk_size", None)
    model.config.loss_chunk_size = 5
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        asked = {"log_probs_of": tokens, "temperature": TEMPERATURE}
        out = model.eval()(**given, use_cache=False, **asked)
    model.config.loss_chunk_size = chunked
    if not _is_near(out.log_probs, wanted) or not _is_near(out.entropy, entropy):
        yield "log-probabilities or entropies are not those of the parent's logits"
    theirs, ours = (
        _gradients(side, a.sum() + b.square().sum())
        for side, a, b in ((before, wanted, entropy), (model, out.log_probs, out.entropy))
    )
    if far := [name for name, gradient in theirs.items() if not _is_near(ours[name], gradient)]:
        yield f"the gradient of {far[0]} is not the parent's"
    if logits.shape in kept or logits.flatten(0, -2).shape in kept:
        yield "logits of all tokens are saved"


def _gradients(model: Any, loss: Tensor) -> dict[str, Tensor]:
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    found = torch.autograd.grad(loss, [p for _, p in named], allow_unused=True)
    return {name: g for (name, _), g in zip(named, found, strict=True) if g is not None}


def _is_near(one: Tensor, two: Tensor) -> bool:
    return bool((one.double() - two.double()).abs().max() <= TOLERANCE * (1 + two.abs().max()))


LOGPROBS = PartCheck(
    part="logprobs",
    routes=lambda parent_class: beside_eager("its head", EQUAL, {}, {}),
    effect=logprobs_effect,
)
