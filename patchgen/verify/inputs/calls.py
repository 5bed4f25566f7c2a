"""Other ways to call a model: other arguments for the forward, or another head on both sides.

`Scenario.ways` names a way.  A function gets the arguments and returns those of this way, or raises
`CannotBuild` if the model does not know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedConfig, PreTrainedModel

from patchgen.facts.sizes import SIZES
from patchgen.verify.inputs.arguments import CannotBuild, Inputs, takes

IGNORED = 96  # a label that a caller says does not count
ITEMS = 7  # labels that a caller says are in the batch
AS_TUPLE = "a tuple"
FOUR_AXES = "mask of four axes"
WHOLE_ENCODER = "an encoder without padding"
FROZEN = "a frozen head"
BY_CONFIGURATION = "weights by configuration"


def apply_argument_styles(
    ways: tuple[str, ...],
    made: Inputs,
    model_class: type[PreTrainedModel],
    config: PreTrainedConfig,
) -> Inputs:
    """`made` changed by all of `ways` that change arguments."""
    for way in ways:
        if way in OF_ARGUMENTS:
            made = OF_ARGUMENTS[way](made, model_class, config)
        elif way not in OF_MODELS:
            raise KeyError(way)
    return made


def _typed(made: Inputs, model_class: type[PreTrainedModel], config: PreTrainedConfig) -> Inputs:
    """Token types: the rest of each text is of another type, in each row from another place on."""
    kinds = getattr(config, "type_vocab_size", SIZES["vocab_size"])
    if "token_type_ids" not in takes(model_class) or kinds < 2:
        raise CannotBuild("it knows no types of tokens")
    ids = _text(made)
    place = torch.arange(ids.shape[1]) + torch.arange(ids.shape[0])[:, None]
    return _with(made, token_type_ids=(place * kinds // ids.shape[1]).clamp(max=kinds - 1))


def _embedded(made: Inputs, model_class: type[PreTrainedModel], config: PreTrainedConfig) -> Inputs:
    """Embeddings (`inputs_embeds`) in place of tokens."""
    if "inputs_embeds" not in takes(model_class):
        raise CannotBuild("its forward takes no inputs_embeds")
    ids = _text(made)
    text = config.get_text_config()
    width = getattr(text, "embedding_size", None) or text.hidden_size
    draw = torch.Generator().manual_seed(6)
    states = torch.randn(*ids.shape, width, generator=draw, dtype=torch.float64)
    rest = {name: tensor for name, tensor in made.given.items() if name != "input_ids"}
    return replace(made, given={**rest, "inputs_embeds": states})


def _placed(made: Inputs, model_class: type[PreTrainedModel], config: PreTrainedConfig) -> Inputs:
    """Position ids that start at 2."""
    if "position_ids" not in takes(model_class):
        raise CannotBuild("its forward takes no position_ids")
    ids = _text(made)
    return _with(made, position_ids=(torch.arange(ids.shape[1]) + 2).expand_as(ids).contiguous())


def _mask_of(dtype: torch.dtype) -> Callable[..., Inputs]:
    def way(made: Inputs, model_class: type[PreTrainedModel], config: PreTrainedConfig) -> Inputs:
        return _with(made, attention_mask=_mask(made).to(dtype))

    return way


def _all_visible(
    made: Inputs, model_class: type[PreTrainedModel], config: PreTrainedConfig
) -> Inputs:
    """A mask that masks nothing."""
    if "attention_mask" not in takes(model_class):
        raise CannotBuild("its forward takes no attention_mask")
    return _with(made, attention_mask=torch.ones_like(_text(made)))


def _square(made: Inputs, model_class: type[PreTrainedModel], config: PreTrainedConfig) -> Inputs:
    """A mask of four axes: a token sees itself and earlier real ones, but not the third."""
    real = _mask(made).bool()
    place = torch.arange(real.shape[1])
    offset = place[:, None] - place[None, :]
    visible = (real[:, None, :] & (offset > 0) & (offset != 3)) | (offset == 0)
    return _with(
        made,
        attention_mask=torch.zeros(visible.shape, dtype=torch.float64).masked_fill(~visible, -1e9)[
            :, None
        ],
    )


def _ignoring(made: Inputs, model_class: type[PreTrainedModel], config: PreTrainedConfig) -> Inputs:
    """Ignored tokens have a label that the caller chooses."""
    if "labels" not in made.given or made.given["labels"].shape != _text(made).shape:
        raise CannotBuild("it has no label for each token")
    labels = made.given["labels"]
    ignored = labels.masked_fill(labels == -100, IGNORED)
    ignored[:, ::4] = IGNORED
    return replace(_with(made, labels=ignored), options={**made.options, "ignore_index": IGNORED})


def _shifted(made: Inputs, model_class: type[PreTrainedModel], config: PreTrainedConfig) -> Inputs:
    """Labels that the caller has shifted, as sequence parallelism does; by less than the model."""
    if "labels" not in made.given or made.given["labels"].shape != _text(made).shape:
        raise CannotBuild("it has no label for each token")
    return _with(made, shift_labels=made.given["labels"].roll(2, 1))


def _counted(made: Inputs, model_class: type[PreTrainedModel], config: PreTrainedConfig) -> Inputs:
    """A loss over the number of labels that the caller passes."""
    if "labels" not in made.given:
        raise CannotBuild("it has no labels")
    return replace(made, options={**made.options, "num_items_in_batch": ITEMS})


def _all_of_encoder(
    made: Inputs, model_class: type[PreTrainedModel], config: PreTrainedConfig
) -> Inputs:
    """An encoder's states, none of which are padding: every query sees every one of them."""
    if "encoder_attention_mask" not in made.given:
        raise CannotBuild("there is no encoder's mask")
    rest = {name: tensor for name, tensor in made.given.items() if name != "encoder_attention_mask"}
    return replace(made, given=rest)


def _as_tuple(made: Inputs, model_class: type[PreTrainedModel], config: PreTrainedConfig) -> Inputs:
    return replace(made, options={**made.options, "return_dict": False})


def _text(made: Inputs) -> Tensor:
    if "input_ids" not in made.given or made.given["input_ids"].dim() != 2:
        raise CannotBuild("there is no text")
    return made.given["input_ids"]


def _mask(made: Inputs) -> Tensor:
    _text(made)
    if "attention_mask" not in made.given:
        raise CannotBuild("there is no padding")
    return made.given["attention_mask"]


def _with(made: Inputs, **more: Tensor) -> Inputs:
    return replace(made, given={**made.given, **more})


OF_ARGUMENTS: Mapping[str, Callable[..., Inputs]] = {
    "types of tokens": _typed,
    "embeddings": _embedded,
    "positions": _placed,
    "mask of floats": _mask_of(torch.float64),
    "mask of bools": _mask_of(torch.bool),
    FOUR_AXES: _square,
    "ignore_index": _ignoring,
    "num_items_in_batch": _counted,
    "shift_labels": _shifted,
    "mask of ones": _all_visible,
    WHOLE_ENCODER: _all_of_encoder,
    AS_TUPLE: _as_tuple,
}


# --- of models


@contextmanager
def apply_model_styles(model: PreTrainedModel, ways: tuple[str, ...]) -> Iterator[None]:
    """A context in which `model` is changed by all of `ways` that change models."""
    with ExitStack() as stack:
        for way in ways:
            if way in OF_MODELS:
                stack.enter_context(OF_MODELS[way](model))
        yield


# Hooks that change their inputs: it shows if a head is not called, or its hook is skipped.


@contextmanager
def _hooked(model: PreTrainedModel) -> Iterator[None]:
    with _removing(_head(model).register_forward_hook(lambda head, given, logits: logits / 2)):
        yield


@contextmanager
def _hooked_before(model: PreTrainedModel) -> Iterator[None]:
    with _removing(_head(model).register_forward_pre_hook(lambda head, given: given[0] / 2)):
        yield


@contextmanager
def _hooked_at_gradient(model: PreTrainedModel) -> Iterator[None]:
    def halve(head: nn.Module, of_states: tuple[Tensor, ...], of_logits: Any) -> tuple[Tensor, ...]:
        return tuple(gradient / 2 for gradient in of_states)

    with _removing(_head(model).register_full_backward_hook(halve)):
        yield


@contextmanager
def _hooked_before_gradient(model: PreTrainedModel) -> Iterator[None]:
    def halve(head: nn.Module, of_logits: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(gradient / 2 for gradient in of_logits)

    with _removing(_head(model).register_full_backward_pre_hook(halve)):
        yield


@contextmanager
def _removing(hook: RemovableHandle) -> Iterator[None]:
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def _wrapped(model: PreTrainedModel) -> Iterator[None]:
    """Wrap a module as accelerate does: `forward` is an attribute of the instance."""
    head = _head(model)
    forward = head.forward
    head.forward = lambda *args, **kwargs: forward(*args, **kwargs) / 2
    try:
        yield
    finally:
        del head.forward


@contextmanager
def _frozen(model: PreTrainedModel) -> Iterator[None]:
    """The head does not learn, as under LoRA; nor do the embeddings that it may share."""
    weight = _head(model).weight
    learns = weight.requires_grad
    weight.requires_grad_(False)
    try:
        yield
    finally:
        weight.requires_grad_(learns)


@contextmanager
def _biased(model: PreTrainedModel) -> Iterator[None]:
    head = _head(model)
    if head.bias is not None:
        raise CannotBuild("its head has a bias anyway")
    drawn = torch.randn(
        head.out_features, generator=torch.Generator().manual_seed(8), dtype=torch.float64
    )
    head.bias = nn.Parameter(drawn.to(head.weight))
    try:
        yield
    finally:
        head.bias = None


class _HalvedLinear(nn.Linear):
    """A head with a forward of its own, as layers with quantized weights have."""

    def forward(self, states: Tensor) -> Tensor:
        return super().forward(states) / 2


@contextmanager
def _of_another_class(model: PreTrainedModel) -> Iterator[None]:
    head = _head(model)
    was = type(head)
    head.__class__ = _HalvedLinear
    try:
        yield
    finally:
        head.__class__ = was


@contextmanager
def _with_own_loss(model: PreTrainedModel) -> Iterator[None]:
    """A user's loss, which gets what the model's own gets."""
    was = model.loss_function
    model.loss_function = lambda *args, **kwargs: was(*args, **kwargs) / 3
    try:
        yield
    finally:
        del model._loss_function


@contextmanager
def _showing(model: PreTrainedModel) -> Iterator[None]:
    """The configuration asks for attention weights."""
    was = model.config._output_attentions
    model.config._output_attentions = True
    try:
        yield
    finally:
        model.config._output_attentions = was


def _head(model: PreTrainedModel) -> nn.Linear:
    head: Any = model.get_output_embeddings()
    if not isinstance(head, nn.Linear):
        raise CannotBuild("it has no linear head of words")
    return head


OF_MODELS: Mapping[str, Callable[[PreTrainedModel], Any]] = {
    "a head with a hook": _hooked,
    "a head with a hook before it": _hooked_before,
    "a head with a hook at its gradient": _hooked_at_gradient,
    "a head with a hook before its gradient": _hooked_before_gradient,
    "a wrapped head": _wrapped,
    "a head of another class": _of_another_class,
    "a loss function of one's own": _with_own_loss,
    "a head with a bias": _biased,
    FROZEN: _frozen,
    BY_CONFIGURATION: _showing,
}
