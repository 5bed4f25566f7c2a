"""Mixins that put the loss of this part into a head, by the statements that heads have."""

# What an edit names is the parent's, and it is never run.
# ruff: noqa: F821, F841
# mypy: disable-error-code="no-untyped-def, attr-defined, name-defined"

import torch

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.loss.states import (
    labelled_tokens,
    loss_from_states,
    needs_logits,
    unshifted_loss_from_states,
    with_place_for_logits,
)


class PlaceForLogits:
    @edit("forward")
    def keep_the_place_of_the_logits(self, output: Hole):
        with old:
            return output(...)
        with new:
            return with_place_for_logits(output(...))


class ChunkedLoss(PlaceForLogits):
    """In training with labels the loss is taken without logits, and `logits` is None."""

    # The head's logits go to the loss as they are.
    @edit("forward")
    def take_the_loss_from_the_states(self, logits, loss, labels, head: Hole, states: Hole):
        with old:
            logits = head(states)
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            logits = head(states) if needs_logits(self, states, labels) else None
            loss = None
            if labels is not None:
                loss = loss_from_states(self, head, states, ...)


class ScaledChunkedLoss(PlaceForLogits):
    """In training with labels the loss is taken without logits, and `logits` is None."""

    # The head multiplies its logits.
    @edit("forward")
    def take_the_loss_from_the_states(self, logits, loss, labels, head: Hole, states: Hole, scale: Hole):
        with old:
            logits = head(states)
            logits = logits * scale
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            logits = head(states) * scale if needs_logits(self, states, labels) else None
            loss = None
            if labels is not None:
                loss = loss_from_states(self, head, states, ..., scale=scale)


class DividedChunkedLoss(PlaceForLogits):
    """In training with labels the loss is taken without logits, and `logits` is None."""

    # The head divides its logits.
    @edit("forward")
    def take_the_loss_from_the_states(self, logits, loss, labels, head: Hole, states: Hole, divisor: Hole):
        with old:
            logits = head(states)
            logits = logits / divisor
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            logits = head(states) / divisor if needs_logits(self, states, labels) else None
            loss = None
            if labels is not None:
                loss = loss_from_states(self, head, states, ..., scale=1 / divisor)


class SoftcappedChunkedLoss(PlaceForLogits):
    """In training with labels the loss is taken without logits, and `logits` is None."""

    # The head caps its logits.
    @edit("forward")
    def take_the_loss_from_the_states(self, logits, loss, labels, head: Hole, states: Hole, cap: Hole):
        with old:
            logits = head(states)
            if cap is not None:
                logits = logits / cap
                logits = torch.tanh(logits)
                logits = logits * cap
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            logits = head(states) if needs_logits(self, states, labels) else None
            if logits is not None and cap is not None:
                logits = logits / cap
                logits = torch.tanh(logits)
                logits = logits * cap
            loss = None
            if labels is not None:
                loss = loss_from_states(self, head, states, ..., softcap=cap)


class AlwaysCappedChunkedLoss(PlaceForLogits):
    """In training with labels the loss is taken without logits, and `logits` is None."""

    # The head caps its logits, whatever the configuration says.
    @edit("forward")
    def take_the_loss_from_the_states(self, logits, loss, labels, head: Hole, states: Hole, cap: Hole):
        with old:
            logits = head(states)
            logits = logits / cap
            logits = torch.tanh(logits)
            logits = logits * cap
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            logits = torch.tanh(head(states) / cap) * cap if needs_logits(self, states, labels) else None
            loss = None
            if labels is not None:
                loss = loss_from_states(self, head, states, ..., softcap=cap)


class ScaledCappedChunkedLoss(PlaceForLogits):
    """In training with labels the loss is taken without logits, and `logits` is None."""

    # The head multiplies its logits, and caps what that gives.
    @edit("forward")
    def take_the_loss_from_the_states(self, logits, loss, labels, head: Hole, states: Hole, scale: Hole, cap: Hole):
        with old:
            logits = head(states)
            logits = logits * scale
            logits = logits / cap
            logits = torch.tanh(logits)
            logits = logits * cap
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            logits = torch.tanh(head(states) * scale / cap) * cap if needs_logits(self, states, labels) else None
            loss = None
            if labels is not None:
                loss = loss_from_states(self, head, states, ..., scale=scale, softcap=cap)


class UnshiftedChunkedLoss(PlaceForLogits):
    """In training with labels the loss is taken without logits, and `logits` is None."""

    # The head compares each token with its own label, as BART does as a decoder.  As there, the mean over labelled
    # tokens is taken whatever `num_items_in_batch` is.
    @edit("forward")
    def take_the_loss_from_the_states(self, logits, loss, labels, loss_fct, head: Hole, states: Hole, size: Hole):
        with old:
            logits = head(states)
            loss = None
            if labels is not None:
                labels = labels.to(logits.device)
                loss_fct = CrossEntropyLoss()
                loss = loss_fct(logits.view(-1, size), labels.view(-1))
        with new:
            logits = head(states) if needs_logits(self, states, labels) else None
            loss = None
            if labels is not None:
                loss = unshifted_loss_from_states(self, head, states, logits, labels)


class LabelledTokens:
    """In training with labels the head runs on labelled tokens alone, and `logits` is None.

    Selecting them needs their number on the host, and under `torch.compile` a graph of its own; a compiled model
    therefore runs the head on all tokens, as transformers does, unless `config.max_labelled_fraction` is set.  Then
    the head runs on that fraction of the tokens, rounded up, the labelled ones first: no synchronisation, one graph,
    and shapes that do not depend on the labels.  Where more tokens have a label, loss and gradients are NaN.
    """

    @edit("forward")
    def run_the_head_where_labels_are(self, prediction_scores, labels, head: Hole, states: Hole, output: Hole):
        with old:
            prediction_scores = head(states)
            ...
            return output(..., logits=prediction_scores)
        with new:
            all_tokens = states
            tokens, labels = labelled_tokens(self, all_tokens, labels)
            prediction_scores = head(tokens)
            ...
            if tokens is not all_tokens:
                prediction_scores = None
            return with_place_for_logits(output(..., logits=prediction_scores))


class LabelledTokensOfEitherHead:
    """In training with labels the head runs on labelled tokens alone, and `logits` is None: see `LabelledTokens`."""

    # DeBERTa's configuration chooses between two heads.
    @edit("forward")
    def run_the_head_where_labels_are(
        self, prediction_scores, labels, legacy: Hole, head: Hole, embeddings: Hole, states: Hole, output: Hole
    ):
        with old:
            if self.legacy:
                prediction_scores = legacy(states)
            else:
                prediction_scores = head(states, embeddings)
            ...
            return output(..., logits=prediction_scores)
        with new:
            all_tokens = states
            tokens, labels = labelled_tokens(self, all_tokens, labels)
            if self.legacy:
                prediction_scores = legacy(tokens)
            else:
                prediction_scores = head(tokens, embeddings)
            ...
            if tokens is not all_tokens:
                prediction_scores = None
            return with_place_for_logits(output(..., logits=prediction_scores))
