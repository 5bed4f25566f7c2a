# What an edit names is the parent's, and it is never run.
# mypy: disable-error-code="no-untyped-def, attr-defined, name-defined"
"""Which tokens the head of a masked language model runs on, and mixins that choose them."""

import warnings
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers.loss.loss_utils import ForMaskedLMLoss

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.loss.deferred import defer


def labelled_tokens(
    model: Any, states: Tensor, labels: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """In training, the states (N, D) with a label, and their labels (N); else both unchanged."""
    fraction = getattr(model.config, "max_labelled_fraction", None)
    if fraction is not None and not 0 < fraction <= 1:
        raise ValueError(f"max_labelled_fraction is above 0 and at most 1, not {fraction!r}")
    if labels is None or not model.training or getattr(model.config, "loss_chunk_size", None) == 0:
        return states, labels
    if hasattr(next(model.parameters()), "ds_id"):  # its hooks read outputs, without a gradient
        warnings.warn("the head runs on all tokens: ZeRO-3 has sharded it", stacklevel=2)
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


class LabelledTokens:
    """In training with labels the head runs on labelled tokens; logits of all are deferred.

    Only the device knows how many there are.  A compiled model therefore runs the head on all
    tokens, unless `config.max_labelled_fraction` is set.  Then it runs the head on that fraction of
    them, labelled ones first, in one graph; where more have a label, loss and gradients are NaN.
    """

    @edit("forward")
    def run_the_head_where_labels_are(
        self, prediction_scores, labels, loss: Hole, head: Hole, states: Hole
    ):
        with old:
            prediction_scores = head(states)
            loss = None
            if labels is not None:
                ...
        with new:
            all_tokens = states
            tokens, labels = labelled_tokens(self, all_tokens, labels)
            prediction_scores = head(tokens)
            loss = None
            if labels is not None:
                ...
            if tokens is not all_tokens:
                shape = *all_tokens.shape[:-1], prediction_scores.shape[-1]
                prediction_scores = defer(
                    partial(head, all_tokens), shape, prediction_scores, (self,), head.parameters()
                )


class LabelledTokensByFunction:
    """In training with labels the head runs on labelled tokens; logits of all are deferred."""

    # The loss is the model's `loss_function`, of which the user may have set another.
    @edit("forward")
    def run_the_head_where_labels_are(self, logits, labels, head: Hole, states: Hole, output: Hole):
        with old:
            logits = head(states)
            ...
            return output(..., logits=logits)
        with new:
            tokens = all_tokens = states
            if self.loss_function is ForMaskedLMLoss:
                tokens, labels = labelled_tokens(self, all_tokens, labels)
            logits = head(tokens)
            ...
            if tokens is not all_tokens:
                shape = *all_tokens.shape[:-1], logits.shape[-1]
                logits = defer(partial(head, all_tokens), shape, logits, (self,), head.parameters())
            return output(..., logits=logits)


class LabelledTokensOfEitherHead:
    """In training with labels the head runs on labelled tokens; logits of all are deferred."""

    # DeBERTa's configuration chooses between two heads.
    @edit("forward")
    def run_the_head_where_labels_are(
        self,
        prediction_scores,
        loss: Hole,
        labels,
        legacy: Hole,
        head: Hole,
        embeddings: Hole,
        states: Hole,
    ):
        with old:
            if self.legacy:
                prediction_scores = legacy(states)
            else:
                prediction_scores = head(states, embeddings)
            loss = None
            if labels is not None:
                ...
        with new:
            all_tokens = states
            tokens, labels = labelled_tokens(self, all_tokens, labels)
            if self.legacy:
                weights = legacy.parameters()
                compute_logits = partial(legacy, all_tokens)
                prediction_scores = legacy(tokens)
            else:
                weights = head.parameters()
                compute_logits = partial(head, all_tokens, embeddings)
                prediction_scores = head(tokens, embeddings)
            loss = None
            if labels is not None:
                ...
            if tokens is not all_tokens:
                shape = *all_tokens.shape[:-1], prediction_scores.shape[-1]
                prediction_scores = defer(
                    compute_logits, shape, prediction_scores, (self,), weights
                )
