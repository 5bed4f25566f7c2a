# mypy: disable-error-code="attr-defined"
"""Logits that are computed when something reads them."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.forward_ad import _is_fwd_grad_enabled
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


def runs_a_function() -> bool:
    """Whether an `autograd.Function` is run, which takes away both kinds of gradients."""
    if torch.compiler.is_compiling() or torch.is_inference_mode_enabled():
        return False
    return not _is_fwd_grad_enabled()


def defer(compute: Any, shape: Any, like: Tensor, owners: Any = (), weights: Any = ()) -> Any:
    """Logits of a shape, with the dtype and the device of `like`, that `compute` gives.

    FSDP2 may have sharded the modules `owners` again before something reads them.
    """
    weights = list(weights)
    versions = [weight._version for weight in weights]
    device = like.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    grad_enabled = torch.is_grad_enabled()
    values, backward_ran = {}, []
    sharded = [owner for owner in owners if hasattr(owner, "unshard")]
    if sharded and like.requires_grad:
        like.register_hook(lambda grad: backward_ran.append(True))

    def read() -> Tensor:
        if grad_enabled and runs_a_function():
            raise RuntimeError(
                "an autograd.Function that computes logits loses their gradient: "
                "give it logits.contiguous()"
            )
        with_grad = grad_enabled and torch.is_grad_enabled() and not backward_ran
        if with_grad not in values:
            for owner in sharded:
                owner.unshard()
            if versions != [weight._version for weight in weights]:
                raise RuntimeError("logits are read after the weights of their head have changed")
            with (
                torch.autocast(device, dtype, dtype is not None),
                torch.set_grad_enabled(with_grad),
            ):
                values[with_grad] = compute()
            for owner in sharded:
                if not with_grad:
                    owner.reshard()
        return values[with_grad]

    # Made at last: behind a break of the graph, torch.compile gives a tensor no attribute.
    logits: Any = like.new_full((), torch.nan).expand(shape).as_subclass(DeferredLogits)
    logits.read = read
    return logits
