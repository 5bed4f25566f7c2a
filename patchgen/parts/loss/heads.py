# What an edit names is the parent's, and it is never run.
# mypy: disable-error-code="no-untyped-def, attr-defined, name-defined"
"""Mixins that let a head take its loss from states, by the statements that heads have.

`self.loss_from_states(head, states, labels, compute_logits)`, with the cap after them where
the head has one, is of another mixin.  It gives the loss function that needs no logits, and logits
that are computed when something reads them; or None, and the logits, where the loss needs them.
What takes the loss then is the same for all heads but one (`TakesLoss`).
"""

from functools import partial

import torch
from torch.nn import CrossEntropyLoss

from patchgen.edits import Hole, edit, new, old


def softcapped_logits(head, states, cap):
    logits = head(states)
    return logits if cap is None else torch.tanh(logits / cap) * cap


def capped_logits(head, states, cap):
    return torch.tanh(head(states) / cap) * cap


def scaled_capped_logits(head, states, scale, cap):
    return torch.tanh(head(states) * scale / cap) * cap


class TakesLoss:
    # Before a head: it reads what the edit of the head binds.
    @edit("forward")
    def take_the_loss_without_logits(self, loss, labels, loss_function):
        with old:
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            loss = None
            if labels is not None:
                if loss_function is None:
                    loss_function = self.loss_function
                loss = loss_function(...)


class PlainHead:
    # The head's logits go to the loss as they are.
    @edit("forward")
    def take_the_loss_from_the_states(self, logits, loss, labels, head: Hole, states: Hole):
        with old:
            logits = head(states)
            loss = None
        with new:
            loss_function, logits = self.loss_from_states(
                head, states, labels, lambda lm_head, hidden=states: lm_head(hidden)
            )
            loss = None


class ScaledHead:
    # The head multiplies its logits.
    @edit("forward")
    def take_the_loss_from_the_states(
        self, logits, loss, labels, head: Hole, states: Hole, scale: Hole
    ):
        with old:
            logits = head(states)
            logits = logits * scale
            loss = None
        with new:
            loss_function, logits = self.loss_from_states(
                head,
                states * scale,
                labels,
                lambda lm_head, hidden=states, factor=scale: lm_head(hidden) * factor,
            )
            loss = None


class DividedHead:
    # The head divides its logits.
    @edit("forward")
    def take_the_loss_from_the_states(
        self, logits, loss, labels, head: Hole, states: Hole, divisor: Hole
    ):
        with old:
            logits = head(states)
            logits = logits / divisor
            loss = None
        with new:
            loss_function, logits = self.loss_from_states(
                head,
                states / divisor,
                labels,
                lambda lm_head, hidden=states, by=divisor: lm_head(hidden) / by,
            )
            loss = None


class SoftcappedHead:
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
        with new:
            loss_function, logits = self.loss_from_states(
                head, states, labels, partial(softcapped_logits, states=states, cap=cap), cap
            )
            loss = None


class AlwaysCappedHead:
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
        with new:
            loss_function, logits = self.loss_from_states(
                head, states, labels, partial(capped_logits, states=states, cap=cap), cap
            )
            loss = None


class ScaledCappedHead:
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
        with new:
            loss_function, logits = self.loss_from_states(
                head,
                states * scale,
                labels,
                partial(scaled_capped_logits, states=states, scale=scale, cap=cap),
                cap,
            )
            loss = None


class UnshiftedHead:
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
            loss_function, logits = self.loss_from_states(
                head, states, labels, lambda lm_head, hidden=states: lm_head(hidden)
            )
            loss = None
            if loss_function is not None:
                loss = loss_function(logits, labels, shift_labels=labels).to(states.dtype)
            elif labels is not None:
                labels = labels.to(logits.device)
                loss_fct = CrossEntropyLoss()
                loss = loss_fct(logits.view(-1, size), labels.view(-1))
