"""Selective activation checkpointing: keep products and attention, recompute the rest of a layer.

An option for any model of transformers that has activation checkpointing, changed by patchgen or
not::

    from patchgen.runtime.checkpointing import keep_products

    model.activation_checkpointing_enable({"context_fn": keep_products})
    model.activation_checkpointing_enable({"context_fn": keep_products}, every_n_layers=2)

Norms, rotations, activations and dropout are run again in the backward pass: they take much memory
and little time. Matrix products and attention are not.  `context_fn` is torch's; it needs
`use_reentrant=False`, the default of transformers.  What torch says of it holds: one backward pass
for each forward pass, and an error where a layer changes a kept product in place, or where autocast
casts a weight once for several layers that share it (ALBERT).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)
from transformers import PreTrainedModel

# Operations by their names in torch's registry; one that is not installed never occurs.
PRODUCTS = frozenset(
    {
        "aten::mm",
        "aten::addmm",
        "aten::convolution",
        "aten::_grouped_mm",
        "aten::_scaled_mm",
        "aten::_scaled_grouped_mm",
        "transformers::grouped_mm_fallback",
    }
)
BATCHED_PRODUCTS = frozenset({"aten::bmm", "aten::baddbmm"})
ATTENTIONS = frozenset(
    {
        "aten::_scaled_dot_product_flash_attention",
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "aten::_scaled_dot_product_efficient_attention",
        "aten::_scaled_dot_product_cudnn_attention",
        "aten::_scaled_dot_product_fused_attention_overrideable",
        "aten::_flash_attention_forward",
        "aten::_efficient_attention_forward",
        "aten::_cudnn_attention_forward",
        "torch_attn::_varlen_attn",
        "flash_attn::_flash_attn_forward",
        "flash_attn::_flash_attn_varlen_forward",
        "flex_attention",
    }
)


class ChangedInPlace(RuntimeError):
    """A layer changes a kept product in place, so a recompute would read another value."""


def keep_products() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """For `context_fn`: the contexts of a layer's forward and of its recompute."""
    forward, recompute = create_selective_checkpoint_contexts(SaveOrRecompute())
    if not hasattr(SelectiveCheckpointContext(is_recompute=False), "op_output"):
        forward.__class__ = _telling(type(forward))
    return forward, recompute


def _telling(mode: Any) -> Any:
    """`mode`, the context of a forward, which tells the policy what kept operations give.

    Since 2.12 torch tells that itself.
    """

    class Telling(mode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = super().__torch_dispatch__(func, types, args, kwargs)
            if is_kept(func, args, kwargs or {}):
                self.policy_fn.note(out)
            return out

    return Telling


class SaveOrRecompute:
    """The policy for one run of a layer, as torch asks for it.

    Raises ChangedInPlace.  torch sees such a change in views alone, and the product of a linear
    layer is none.
    """

    def __init__(self) -> None:
        self.kept: set[int] = set()  # storages, which stay alive as long as this does

    def __call__(self, context: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        # A recompute does what the forward did, and frees what was kept: others get its memory.
        written = () if context.is_recompute else written_by(operation, args, kwargs)
        for tensor in written:
            if storage_of(tensor) in self.kept:
                raise ChangedInPlace(
                    f"{operation} changes in place a product that keep_products keeps: "
                    "checkpoint this model without context_fn"
                )
        if not is_kept(operation, args, kwargs):
            return CheckpointPolicy.PREFER_RECOMPUTE
        self.note(getattr(context, "op_output", None))
        return CheckpointPolicy.MUST_SAVE

    def note(self, outputs: Any) -> None:
        """These are kept."""
        self.kept.update(map(storage_of, _tensors_in(outputs)))


def _tensors_in(values: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor))


def written_by(operation: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Tensor]:
    """The tensors that a call of `operation` changes in place."""
    schema = getattr(operation, "_schema", None)  # an operation of higher order has none
    if schema is None or not schema.is_mutable:
        return
    for parameter in schema.arguments:
        if parameter.alias_info is not None and parameter.alias_info.is_write:
            yield from _tensors_in(argument_of(operation, parameter.name, args, kwargs))


def storage_of(tensor: Tensor) -> int:
    """One number for all tensors that share memory, `_unsafe_view` included."""
    return int(tensor.untyped_storage()._cdata)


def is_kept(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the output of `operation` is kept from the forward pass."""
    name = name_of(operation)
    if name in BATCHED_PRODUCTS:
        # Attention scores take much memory and little time; the attention output is the reverse.
        left, right = args[-2:]
        rows, inner = left.shape[-2:]
        columns = right.shape[-1]
        return bool(rows * columns <= inner * (rows + columns))
    if name in ATTENTIONS:
        # If the recompute left it out, it would not draw its dropout, and all later dropout would
        # change.
        return not argument_of(operation, "dropout_p", args, kwargs)
    return name in PRODUCTS


@cache
def name_of(operation: Any) -> str:
    """`aten::mm` for each overload of it."""
    return str(operation.name()).partition(".")[0]


def argument_of(
    operation: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any | None:
    """What a call of `operation` gives for its parameter `name`; None where it has no such one."""
    schema = getattr(operation, "_schema", None)  # an operation of higher order has none
    parameters = schema.arguments if schema else ()
    for index, parameter in enumerate(parameters):
        if parameter.name != name:
            continue
        if index < len(args):
            return args[index]
        return kwargs.get(name, parameter.default_value)
    return None


def options_of(policy: str) -> dict[str, Any]:
    """The options of torch's `checkpoint` for a policy of the command line: "full", "selective"."""
    options: dict[str, Any] = {"use_reentrant": False}
    return {**options, "context_fn": keep_products} if policy == "selective" else options


def switch_on(model: PreTrainedModel, options: dict[str, Any] | None = None, **more: Any) -> None:
    """Switch checkpointing on, by the name that the installed transformers has for it.

    `options` go to torch's `checkpoint`; `every_n_layers` and `offload` are for transformers.
    """
    enable = getattr(model, "activation_checkpointing_enable", None)
    (enable or model.gradient_checkpointing_enable)(options, **more)


def switch_off(model: PreTrainedModel) -> None:
    """Switch checkpointing off, by the name that the installed transformers has for it."""
    disable = getattr(model, "activation_checkpointing_disable", None)
    (disable or model.gradient_checkpointing_disable)()


def is_on(model: PreTrainedModel) -> bool:
    """Whether a layer of `model` is checkpointed."""
    return any(getattr(module, "gradient_checkpointing", False) for module in model.modules())
