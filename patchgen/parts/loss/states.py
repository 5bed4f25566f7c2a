"""What a model's forward asks of its loss: whether logits are needed, the loss itself, and the outputs."""

from dataclasses import fields
from typing import Any

import torch
from torch import nn
from transformers.loss.loss_utils import ForCausalLMLoss, ForMaskedLMLoss
from transformers.utils import ModelOutput

from patchgen.parts.loss.entropy import linear_cross_entropy, mean_loss


def needs_logits(model: nn.Module, states: torch.Tensor, labels: torch.Tensor | None) -> bool:
    """False where `loss_from_states` takes the loss without logits."""
    if labels is None or not model.training or loss_chunk_size(model) == 0:
        return True
    # Fewer states than labels: `logits_to_keep`, of which the parent knows what it means.
    return states.shape[:-1] != labels.shape or has_own_loss(model)


def has_own_loss(model: nn.Module) -> bool:
    """Whether the model's loss is another one than transformers' for causal or masked language models."""
    return model.loss_function not in (ForCausalLMLoss, ForMaskedLMLoss)


def loss_from_states(
    model: nn.Module,
    head: nn.Module,
    states: torch.Tensor,
    logits: torch.Tensor | None = None,
    labels: torch.Tensor | None = None,
    vocab_size: int | None = None,
    *,
    scale: float | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> torch.Tensor:
    """`model.loss_function(logits, labels, vocab_size, **kwargs)`, from the head's input where `logits` is None.

    Logits are `head(states)`, times `scale`, capped by `softcap`; both are applied in float32, which the parent rounds
    to the model's dtype in between.  Labels are shifted where transformers shifts them.
    """
    if logits is not None:
        return model.loss_function(logits, labels, vocab_size, **kwargs)

    ignored = kwargs.get("ignore_index", -100)
    if model.loss_function is ForCausalLMLoss:
        given = kwargs.get("shift_labels")
        labels = nn.functional.pad(labels, (0, 1), value=ignored)[..., 1:] if given is None else given
    total, count = linear_cross_entropy(
        head, states, labels, scale=scale, softcap=softcap, ignore_index=ignored, chunk=loss_chunk_size(model)
    )
    items = kwargs.get("num_items_in_batch")
    if items is None:
        return mean_loss(total, count)
    return total / (items.to(total.device) if isinstance(items, torch.Tensor) else items)


def unshifted_loss_from_states(
    model: nn.Module,
    head: nn.Module,
    states: torch.Tensor,
    logits: torch.Tensor | None,
    labels: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """`CrossEntropyLoss()(logits.view(-1, V), labels.view(-1))`, from the head's input where `logits` is None.

    `bias` of V elements is added to what the head gives (`final_logits_bias`).
    """
    if logits is not None:
        return nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1).to(logits.device))
    total, count = linear_cross_entropy(
        head, states, labels, bias=bias, scale=scale, softcap=softcap, upcast=False, chunk=loss_chunk_size(model)
    )
    return mean_loss(total, count)


def with_place_for_logits(outputs: Any) -> Any:
    """`outputs`, whose tuple has None where logits would be, and not the next field.

    A `ModelOutput` leaves fields that are None out of its tuple; whoever reads by position would read the cache.
    """
    if isinstance(outputs, ModelOutput) and outputs.logits is None:
        outputs["logits"] = None
        for field in fields(outputs):
            if field.name in outputs:
                outputs.move_to_end(field.name)
    return outputs


def loss_chunk_size(model: nn.Module) -> int | None:
    """`config.loss_chunk_size`; raises ValueError unless it is None or a natural number."""
    size = getattr(model.config, "loss_chunk_size", None)
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
        raise ValueError(f"loss_chunk_size is a number of tokens, 0 or None, not {size!r}")
    return size


def labelled_tokens(
    model: nn.Module, states: torch.Tensor, labels: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The states (N, D) that have a label, and their labels (N); both as they are where the head must see all."""
    fraction = getattr(model.config, "max_labelled_fraction", None)
    if fraction is not None and not 0 < fraction <= 1:
        raise ValueError(f"max_labelled_fraction is above 0 and at most 1, not {fraction!r}")
    if labels is None or not model.training or states.shape[:-1] != labels.shape:
        return states, labels
    if loss_chunk_size(model) == 0 or has_own_loss(model):
        return states, labels

    states_TD, labels_T = states.flatten(0, -2), labels.to(states.device).flatten()
    labelled_T = labels_T != -100
    if fraction is None and torch.compiler.is_compiling():
        return states_TD, labels_T  # all of them: how many have a label would be known to the host alone
    if fraction is None:
        rows = labelled_T.nonzero().squeeze(1)
        return states_TD.index_select(0, rows), labels_T[rows]

    size = -int(-fraction * labels_T.shape[0] // 1)
    rows = labelled_T.to(torch.int8).argsort(descending=True, stable=True)[:size]
    states_ND = states_TD.index_select(0, rows)
    return torch.where(labelled_T.sum() <= size, states_ND, torch.nan), labels_T[rows]
