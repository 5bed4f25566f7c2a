# What an edit names is the parent's, and it is never run.
# mypy: disable-error-code="no-untyped-def, attr-defined, name-defined"
"""Mixins that let a head take its loss from states, by the statements that heads have.

`self.loss_from_states(head, states, labels)`, with the cap after them where the head has one, is of
another mixin.  It gives the loss function that needs no logits, or None where logits are needed.
"""

from typing import Any

import torch
from torch.nn import CrossEntropyLoss

from patchgen.edits import Hole, edit, new, old


def with_place_for_logits(outputs: Any) -> Any:
    """`outputs`, whose tuple has None in the place of the logits instead of the next field."""
    outputs["logits"] = outputs.logits
    for name in [name for name in outputs.__dataclass_fields__ if name in outputs]:
        outputs.move_to_end(name)
    return outputs


class PlaceForLogits:
    @edit("forward")
    def keep_the_place_of_the_logits(self, output: Hole):
        with old:
            return output(...)
        with new:
            head_outputs = output(...)
            return with_place_for_logits(head_outputs)


class PlainHead(PlaceForLogits):
    # The head's logits go to the loss as they are.
    @edit("forward")
    def take_the_loss_from_the_states(self, logits, loss, labels, head: Hole, states: Hole):
        with old:
            logits = head(states)
            loss = None
            if labels is not None:
                loss = self.loss_function(...)
        with new:
            loss_function = self.loss_from_states(head, states, labels)
            logits = head(states) if loss_function is None else None
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class ScaledHead(PlaceForLogits):
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
            loss_function = self.loss_from_states(head, states * scale, labels)
            logits = head(states) * scale if loss_function is None else None
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class DividedHead(PlaceForLogits):
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
            loss_function = self.loss_from_states(head, states / divisor, labels)
            logits = head(states) / divisor if loss_function is None else None
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class SoftcappedHead(PlaceForLogits):
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
            loss_function = self.loss_from_states(head, states, labels, cap)
            logits = head(states) if loss_function is None else None
            if logits is not None and cap is not None:
                logits = logits / cap
                logits = torch.tanh(logits)
                logits = logits * cap
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class AlwaysCappedHead(PlaceForLogits):
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
            loss_function = self.loss_from_states(head, states, labels, cap)
            logits = torch.tanh(head(states) / cap) * cap if loss_function is None else None
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class ScaledCappedHead(PlaceForLogits):
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
            loss_function = self.loss_from_states(head, states * scale, labels, cap)
            logits = torch.tanh(head(states) * scale / cap) * cap if loss_function is None else None
            loss = None
            if labels is not None:
                loss = (loss_function or self.loss_function)(...)


class UnshiftedHead(PlaceForLogits):
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
            loss_function = self.loss_from_states(head, states, labels)
            logits = head(states) if loss_function is None else None
            loss = None
            if loss_function is not None:
                loss = loss_function(logits, labels, shift_labels=labels).to(states.dtype)
            elif labels is not None:
                labels = labels.to(logits.device)
                loss_fct = CrossEntropyLoss()
                loss = loss_fct(logits.view(-1, size), labels.view(-1))
