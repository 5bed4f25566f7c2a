# What an edit names is the parent's, and it is never run.
# mypy: disable-error-code="no-untyped-def, attr-defined, name-defined"
"""Mixins that put the loss of this part into a head, by the statements that heads have."""

from functools import partial

import torch
from transformers.loss.loss_utils import ForMaskedLMLoss

from patchgen.edits import Hole, edit, new, old
from patchgen.parts.loss.biased import biased_losses
from patchgen.parts.loss.capped import capped_losses
from patchgen.parts.loss.labelled import labelled_tokens
from patchgen.parts.loss.linear import linear_losses
from patchgen.parts.loss.states import loss_without_logits, with_place_for_logits


class PlaceForLogits:
    @edit("forward")
    def keep_the_place_of_the_logits(self, output: Hole):
        with old:
            return output(...)
        with new:
            head_outputs = output(...)
            return with_place_for_logits(head_outputs)


class ChunkedLoss(PlaceForLogits):
    # The head's logits go to the loss as they are.
    @edit("forward")
    def take_the_loss_from_the_states(self, logits, loss, labels, head: Hole, states: Hole):
        with old:
            logits = head(states)
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            loss_function = loss_without_logits(self, head, states, labels, linear_losses)
            logits = head(states) if loss_function is None else None
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class BiasedChunkedLoss(PlaceForLogits):
    # The head has a bias, or its configuration says whether.
    @edit("forward")
    def take_the_loss_from_the_states(self, logits, loss, labels, head: Hole, states: Hole):
        with old:
            logits = head(states)
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            bias = getattr(head, "bias", None)
            entropies = linear_losses if bias is None else partial(biased_losses, bias=bias)
            loss_function = loss_without_logits(self, head, states, labels, entropies, bias)
            logits = head(states) if loss_function is None else None
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class ScaledChunkedLoss(PlaceForLogits):
    # The head multiplies its logits.
    @edit("forward")
    def take_the_loss_from_the_states(
        self, logits, loss, labels, head: Hole, states: Hole, scale: Hole
    ):
        with old:
            logits = head(states)
            logits = logits * scale
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            loss_function = loss_without_logits(self, head, states * scale, labels, linear_losses)
            logits = head(states) * scale if loss_function is None else None
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class DividedChunkedLoss(PlaceForLogits):
    # The head divides its logits.
    @edit("forward")
    def take_the_loss_from_the_states(
        self, logits, loss, labels, head: Hole, states: Hole, divisor: Hole
    ):
        with old:
            logits = head(states)
            logits = logits / divisor
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            loss_function = loss_without_logits(self, head, states / divisor, labels, linear_losses)
            logits = head(states) / divisor if loss_function is None else None
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class SoftcappedChunkedLoss(PlaceForLogits):
    # The head caps its logits where the configuration says so.
    @edit("forward")
    def take_the_loss_from_the_states(
        self, logits, loss, labels, head: Hole, states: Hole, cap: Hole
    ):
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
            entropies = partial(capped_losses, cap=cap or 0.0)
            loss_function = loss_without_logits(self, head, states, labels, entropies)
            logits = head(states) if loss_function is None else None
            if logits is not None and cap is not None:
                logits = logits / cap
                logits = torch.tanh(logits)
                logits = logits * cap
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class AlwaysCappedChunkedLoss(PlaceForLogits):
    # The head caps its logits, whatever the configuration says.
    @edit("forward")
    def take_the_loss_from_the_states(
        self, logits, loss, labels, head: Hole, states: Hole, cap: Hole
    ):
        with old:
            logits = head(states)
            logits = logits / cap
            logits = torch.tanh(logits)
            logits = logits * cap
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            entropies = partial(capped_losses, cap=cap)
            loss_function = loss_without_logits(self, head, states, labels, entropies)
            logits = torch.tanh(head(states) / cap) * cap if loss_function is None else None
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class ScaledCappedChunkedLoss(PlaceForLogits):
    # The head multiplies its logits, and caps what that gives.
    @edit("forward")
    def take_the_loss_from_the_states(
        self, logits, loss, labels, head: Hole, states: Hole, scale: Hole, cap: Hole
    ):
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
            entropies = partial(capped_losses, cap=cap)
            loss_function = loss_without_logits(self, head, states * scale, labels, entropies)
            logits = torch.tanh(head(states) * scale / cap) * cap if loss_function is None else None
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class UnshiftedChunkedLoss(PlaceForLogits):
    # The head compares each token with its own label, as BART does as a decoder: by the mean over
    # labelled tokens, whatever `num_items_in_batch` is, and in the model's dtype.
    @edit("forward")
    def take_the_loss_from_the_states(
        self, logits, loss, labels, loss_fct, head: Hole, states: Hole, size: Hole
    ):
        with old:
            logits = head(states)
            loss = None
            if labels is not None:
                labels = labels.to(logits.device)
                loss_fct = CrossEntropyLoss()
                loss = loss_fct(logits.view(-1, size), labels.view(-1))
        with new:
            loss_function = loss_without_logits(self, head, states, labels, linear_losses)
            logits = head(states) if loss_function is None else None
            loss = None
            if loss_function is not None:
                loss = loss_function(logits, labels, shift_labels=labels).to(states.dtype)
            elif labels is not None:
                labels = labels.to(logits.device)
                loss_fct = CrossEntropyLoss()
                loss = loss_fct(logits.view(-1, size), labels.view(-1))


class LabelledTokens:
    """In training with labels the head runs on labelled tokens alone, and `logits` is None.

    Only the device knows how many there are.  A compiled model therefore runs the head on all
    tokens, unless `config.max_labelled_fraction` is set.  Then it runs the head on that fraction of
    them, labelled ones first, in one graph; where more have a label, loss and gradients are NaN.
    """

    @edit("forward")
    def run_the_head_where_labels_are(
        self, prediction_scores, labels, head: Hole, states: Hole, output: Hole
    ):
        with old:
            prediction_scores = head(states)
            ...
            return output(..., logits=prediction_scores)
        with new:
            all_tokens = states
            tokens, labels = labelled_tokens(self, all_tokens, labels)
            prediction_scores = head(tokens)
            ...
            head_outputs = output(..., logits=prediction_scores if tokens is all_tokens else None)
            return with_place_for_logits(head_outputs)


class LabelledTokensByFunction:
    """In training with labels the head runs on labelled tokens alone, and `logits` is None."""

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
            head_outputs = output(..., logits=logits if tokens is all_tokens else None)
            return with_place_for_logits(head_outputs)


class LabelledTokensOfEitherHead:
    """In training with labels the head runs on labelled tokens alone, and `logits` is None."""

    # DeBERTa's configuration chooses between two heads.
    @edit("forward")
    def run_the_head_where_labels_are(
        self,
        prediction_scores,
        labels,
        legacy: Hole,
        head: Hole,
        embeddings: Hole,
        states: Hole,
        output: Hole,
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
            head_outputs = output(..., logits=prediction_scores if tokens is all_tokens else None)
            return with_place_for_logits(head_outputs)
