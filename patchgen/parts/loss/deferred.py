# mypy: disable-error-code="attr-defined"
"""Logits that are computed when something reads them."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

# Strides are 0: code that needs memory copies the logits, which reads them.
KNOWN = {
    *(Tensor.shape.__get__, Tensor.dtype.__get__, Tensor.device.__get__, Tensor.is_leaf.__get__),
    *(Tensor.requires_grad.__get__, Tensor.grad_fn.__get__, torch.is_floating_point),
    *(Tensor.stride, Tensor.is_contiguous),
}


class DeferredLogits(Tensor):
    """Logits of which shape, dtype and device are known; whatever else is asked computes them.

    Until then they need no gradient, and DDP and FSDP2 do not read them.  Clones and casts, which
    these and accelerate make of outputs, are deferred too.
    """

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if function in KNOWN:
            return super().__torch_function__(function, types, args, kwargs)
        if function in (Tensor.clone, Tensor.float, Tensor.to) and isinstance(args[0], cls):
            logits, *how = args
            like = function(
                torch.empty(0, dtype=logits.dtype, device=logits.device), *how, **kwargs
            )
            return defer(lambda: function(logits.read(), *how, **kwargs), logits.shape, like)
        args, kwargs = tree_map_only(cls, lambda logits: logits.read(), (args, kwargs))
        return function(*args, **kwargs)


def defer(compute: Any, shape: Any, like: Tensor, model: Any = None, weights: Any = ()) -> Any:
    """Logits of a shape, with the dtype and the device of `like`, that `compute` gives."""
    logits: Any = like.new_full((), torch.nan).expand(shape).as_subclass(DeferredLogits)
    kind, grad_enabled, weights = like.device.type, torch.is_grad_enabled(), list(weights)
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
    versions, values = [each._version for each in weights], {}

    def read() -> Tensor:
        learns = grad_enabled and torch.is_grad_enabled()
        if learns not in values:
            if hasattr(model, "unshard"):  # FSDP2 shards weights after the forward pass
                model.unshard()
            if versions != [each._version for each in weights]:
                raise RuntimeError("logits are read after the weights of their head have changed")
            with torch.autocast(kind, dtype, dtype is not None), torch.set_grad_enabled(learns):
                values[learns] = compute()
            if hasattr(model, "reshard") and not learns:
                model.reshard()
        return values[learns]

    logits.read = read
    return logits
