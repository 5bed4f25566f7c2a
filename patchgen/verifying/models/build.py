"""Build a tiny parent with weights that show errors, and the variant from its checkpoint.

With transformers' own initialization attention is almost uniform: scores deviate by a hundredth,
and even a doubled scale disappears in rounding.  With these weights scores deviate by more than
one, norm weights are not one, and biases are not zero.

Also the attention functions that a CPU does not have.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import flex_attention as flex
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.integrations import flex_attention as integration
from transformers.masking_utils import AttentionMaskInterface
from transformers.modeling_utils import AttentionInterface
from transformers.pytorch_utils import Conv1D
from transformers.utils import logging

from patchgen import disk
from patchgen.syntax.errors import describe_error
from patchgen.verifying.inputs.arguments import LARGEST, CannotBuild
from patchgen.verifying.parts.part_check import Build, Route, load_strictly, replaced

# The deviation of a matrix's output for an input of deviation one.  A score is a product of two
# outputs, so it deviates by the square.
GAIN = 1.3


@torch.no_grad()
def draw_weights(model: nn.Module, seed: int = 0) -> None:
    """Set every parameter, by its name alone: drawn in float64 and rounded to its dtype.

    Also what a checkpoint has beside them and a new model has as zeros, such as a router's bias.
    """
    generator = torch.Generator().manual_seed(seed)
    saved = model.state_dict().keys()
    tensors = sorted(model.named_parameters())
    for name, buffer in sorted(model.named_buffers()):
        if name not in saved or not buffer.is_floating_point():
            continue
        if not buffer.any():
            tensors.append((name, buffer))
    for name, tensor in tensors:
        path, _, own_name = name.rpartition(".")
        owner = model.get_submodule(path)
        normal = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        tensor.copy_(_scaled(normal, owner, is_bias=own_name.endswith("bias")))


def _scaled(normal: Tensor, owner: nn.Module, *, is_bias: bool) -> Tensor:
    if is_bias:
        return 0.3 * normal
    has_inputs = isinstance(owner, nn.Linear | nn.modules.conv._ConvNd | nn.Embedding)
    is_scale = normal.dim() <= 1 or (normal.shape[-1] == 1 and not has_inputs)
    if is_scale:
        return 1 + 0.3 * normal.clamp(-3, 3)  # of a norm, or a scale: around one, and positive
    if isinstance(owner, nn.Embedding):
        return normal
    inputs = normal.shape[-1]  # that add up to one value of the output
    if isinstance(owner, Conv1D | nn.modules.conv._ConvTransposeNd):
        inputs = normal.shape[0]
    elif isinstance(owner, nn.modules.conv._ConvNd):  # else each layer would be larger
        inputs = normal.shape[1:].numel()
    return GAIN * max(inputs, 1) ** -0.5 * normal  # of a width of zero nothing is drawn


def on_meta(model_class: type[PreTrainedModel], config: PreTrainedConfig) -> PreTrainedModel:
    """A model that takes no memory.  Raises CannotBuild."""
    try:
        with torch.device("meta"):
            return model_class(config)
    except Exception as error:  # each class has its own: a division by zero, a missing package
        name = model_class.__name__
        what = describe_error(error)
        raise CannotBuild(f"{name} does not take a tiny configuration: {what}") from error


def build_parent(
    parent_class: type[PreTrainedModel], config: PreTrainedConfig, dtype: torch.dtype, seed: int = 0
) -> PreTrainedModel:
    """The parent with weights that show errors, on the CPU.  Raises CannotBuild."""
    size = sum(parameter.numel() for parameter in on_meta(parent_class, config).parameters())
    if size > LARGEST:
        raise CannotBuild(f"has {size:,} parameters at its tiniest, more than {LARGEST:,}")
    try:
        model = parent_class(config)
    except Exception as error:  # on the meta device it could be built
        raise CannotBuild(f"{parent_class.__name__} cannot be built: {error}") from error
    model = model.to(dtype).eval()
    draw_weights(model, seed)
    return model


def build_both(
    master: PreTrainedModel, variant_class: type[PreTrainedModel], build: Build, route: Route
) -> tuple[PreTrainedModel, PreTrainedModel]:
    """Parent and variant from the checkpoint of `master`, along `route`, in eval mode."""
    asked = {**route.parent, **_in_float64(master, variant_class)}
    with disk.scratch() as folder, silence_progress():
        try:
            master.save_pretrained(folder)
            parent = load_strictly(type(master), folder, dtype=master.dtype, **asked)
        except Exception as error:  # of a configuration that refuses what a case changes
            what = describe_error(error)
            raise CannotBuild(f"the parent itself is not saved and loaded: {what}") from error
    return parent.eval(), build_variant(master, variant_class, build, route)


def build_variant(
    master: PreTrainedModel, variant_class: type[PreTrainedModel], build: Build, route: Route
) -> PreTrainedModel:
    asked = {**route.variant, **_in_float64(master, variant_class)}
    with disk.scratch() as folder, silence_progress():
        return build(master, variant_class, folder, asked).eval()


def _in_float64(master: PreTrainedModel, variant_class: type[PreTrainedModel]) -> dict[str, Any]:
    # Grouped matmul has no float64: both sides loop over experts.
    can_set = any(each._can_set_experts_implementation() for each in (type(master), variant_class))
    loop = master.dtype == torch.float64 and can_set
    return {"experts_implementation": "eager"} if loop else {}


@contextmanager
def silence_progress() -> Iterator[None]:
    """No bars of transformers for checkpoints of a hundred kilobytes."""
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


@functools.cache
def _traced() -> Callable[..., Any]:
    return torch.compile(flex.flex_attention, backend="aot_eager")


@contextmanager
def flex_on_cpu() -> Iterator[None]:
    """Flex attention by torch's reference, which has a backward pass on every device.

    torch refuses gradients on a CPU because its kernel has none there.  Without any compiling the
    gradient of a bias would be wrong under checkpointing: saved tensors no longer say that they
    need one.
    """
    traced = replaced(integration, "WrappedFlexAttention", lambda _: lambda training: _traced)
    with traced, replaced(flex, "_validate_device", lambda _: lambda query, key, value: None):
        yield


@contextmanager
def registered(
    name: str, function: Callable[..., Any], masks: Callable[..., Any]
) -> Iterator[list[dict[str, Any]]]:
    """Register `function` and `masks` under `name`; yields the keywords of each call."""
    calls: list[dict[str, Any]] = []

    def noted(
        module: nn.Module, q: Tensor, k: Tensor, v: Tensor, attention_mask: Any, **given: Any
    ) -> Any:
        calls.append({"attention_mask": attention_mask, **given})
        return function(module, q, k, v, attention_mask, **given)

    AttentionInterface.register(name, noted)
    AttentionMaskInterface.register(name, masks)
    try:
        yield calls
    finally:
        del AttentionInterface._global_mapping[name]
        del AttentionMaskInterface._global_mapping[name]


def _of_one_text(queries: int, keys: int, lengths: dict[str, Any]) -> Tensor:
    """Which keys are of a query's own text, where texts lie in one row behind each other.

    A kernel reads no more of a text than the longest that it is told of.
    """
    query_bounds = lengths.get("cu_seq_lens_q")
    key_bounds = lengths.get("cu_seq_lens_k")
    if query_bounds is None or key_bounds is None:
        return torch.ones(1, 1, queries, keys, dtype=torch.bool)
    # Two numbers that are no text's: what is not read is not of one text either.
    longest_query = lengths.get("max_length_q")
    longest_key = lengths.get("max_length_k")
    of_query = _text_of_places(queries, query_bounds, longest_query, unread=-1)
    of_key = _text_of_places(keys, key_bounds, longest_key, unread=-2)
    is_own = of_query[:, None] == of_key[None, :]
    return is_own[None, None]


def _text_of_places(places: int, bounds: Tensor, longest: Any, unread: int) -> Tensor:
    """The number of the text at each place of a row; `unread` where a kernel does not read."""
    place = torch.arange(places)
    bounds = bounds.long()
    text = torch.searchsorted(bounds[1:].contiguous(), place, right=True)
    start = bounds[text.clamp(max=len(bounds) - 2)]
    limit = places if longest is None else int(longest)
    return torch.where(place - start < limit, text, unread)


def flash_reference(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    is_causal: bool | None = None,
    s_aux: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention over the tokens that the mask (rows, keys) keeps; without one, over all.

    What the kernels leave out is an error here: a bias of scores, sinks.
    """
    kind = type(module).__name__
    left_out = {**kwargs, "s_aux": s_aux}
    for name in ("position_bias", "s_aux"):
        if left_out.get(name) is not None:
            raise NotImplementedError(f"{kind} gave `{name}`, which FlashAttention leaves out")
    if attention_mask is not None and attention_mask.dim() != 2:
        raise ValueError(f"{kind} gave a mask of {attention_mask.dim()} axes to FlashAttention")
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    queries = query.shape[2]
    keys = key.shape[2]
    back = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)[None, :]
    visible = torch.ones(1, 1, queries, keys, dtype=torch.bool)
    if causal and queries > 1:
        visible = visible & (back >= 0)
    if sliding_window is not None:
        visible = visible & (back.abs() < sliding_window)
    visible = visible & _of_one_text(queries, keys, kwargs)
    if attention_mask is not None:
        visible = visible & attention_mask.bool()[:, None, None, :]
    groups = query.shape[1] // key.shape[1]
    key = key.repeat_interleave(groups, 1)
    value = value.repeat_interleave(groups, 1)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = query @ key.transpose(2, 3) * scaling
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    scores = scores.masked_fill(~visible, torch.finfo(query.dtype).min)
    weights = nn.functional.dropout(scores.softmax(-1), p=dropout, training=module.training)
    return (weights @ value).transpose(1, 2).contiguous(), None
