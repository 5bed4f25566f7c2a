"""Where two models part: the first module that gives other values for equal inputs.

A wrong scale in one attention changes nearly every tensor of a step.  Which of them differs most
says little; which module computes it says all::

    model.layers.0.self_attn.q_proj   equal inputs, equal outputs
    model.layers.0.self_attn          equal inputs, other outputs: it is here
    model.layers.0.mlp                other inputs
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten_with_path
from transformers import PreTrainedModel

# Relative to the largest entry: far above what sums round, and below any error.
CLOSE = {torch.float64: 1e-8, torch.float32: 1e-3, torch.bfloat16: 5e-2}
# Floating tensors and masks by where they stand, and those of the inputs and outputs of one call.
Placed = dict[str, Tensor]
Call = tuple[Placed, Placed]


@contextmanager
def record_calls(model: PreTrainedModel) -> Iterator[dict[str, Call]]:
    """The first call of each module, in the order in which they end."""
    calls: dict[str, Call] = {}
    hooks = []
    for name, module in model.named_modules():

        def note(module: Any, given: Any, named: Any, out: Any, name: str = name) -> None:
            if name not in calls:
                calls[name] = _floats((given, named)), _floats(out)

        hooks.append(module.register_forward_hook(note, with_kwargs=True))
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def find_first(theirs: Mapping[str, Call], ours: Mapping[str, Call], close: float) -> str | None:
    """The name of the first module of both that computes other outputs from equal inputs."""
    for name, (given, out) in ours.items():
        if name not in theirs:
            continue
        their_given, their_out = theirs[name]
        if _are_close(given, their_given, close) and not _are_close(out, their_out, close):
            return name
    return None


def _floats(values: Any) -> Placed:
    return {
        str(path): tensor.detach().clone()
        for path, tensor in tree_flatten_with_path(values)[0]
        if isinstance(tensor, Tensor) and (tensor.is_floating_point() or tensor.dtype == torch.bool)
    }


def say_where(
    parent: PreTrainedModel, variant: PreTrainedModel, run: Callable[[PreTrainedModel], Any]
) -> str:
    """The module at which both part, in words; nothing where all of both are close."""
    calls: list[dict[str, Call]] = []
    for model in (parent, variant):
        with record_calls(model) as recorded:
            run(model)
        calls.append(recorded)
    theirs, ours = calls
    name = find_first(theirs, ours, CLOSE.get(variant.dtype, CLOSE[torch.bfloat16]))
    if name is None:
        return ""
    of_class = type(variant.get_submodule(name)).__name__
    at = f" (`{name.rpartition('.')[2]}`)" if name else ""
    return f"`{of_class}`{at} gives other values than the parent's for equal inputs"


def say_ties(parent: PreTrainedModel, variant: PreTrainedModel) -> str:
    """The first weight that one of both shares with another place, and the other does not."""
    theirs, ours = _ties(parent), _ties(variant)
    for name, first in {**ours, **theirs}.items():
        if ours.get(name) != theirs.get(name):
            side, other = ("variant", "parent") if name in ours else ("parent", "variant")
            return f"`{name}` is `{first}` in the {side}, and not in the {other}"
    return ""


def _ties(model: PreTrainedModel) -> dict[str, str]:
    """Each parameter that has an earlier name, and that."""
    first: dict[int, str] = {}
    names = model.named_parameters(remove_duplicate=False)
    ties = {name: first.setdefault(id(parameter), name) for name, parameter in names}
    return {name: earlier for name, earlier in ties.items() if earlier != name}


def _are_close(ours: Placed, theirs: Placed, close: float) -> bool:
    """Whether what both have is the same; masks are compared where both have one of a form.

    One side alone may have attention weights, or pass something by another name.
    """
    masks = [
        [_visible(each) for each in side.values() if _is_mask(each)] for side in (ours, theirs)
    ]
    for one, two in zip(*masks, strict=False):
        if one.shape == two.shape and not torch.equal(one, two):
            return False
    first, second = (
        {path: each for path, each in side.items() if not _is_mask(each)} for side in (ours, theirs)
    )
    both = [(first[path], second[path]) for path in first if path in second]
    if not both and (first or second):
        both = list(zip(first.values(), second.values(), strict=False))
    for one, two in both:
        if one.shape != two.shape:
            return False
        top = float(two.abs().max()) if two.numel() else 0.0
        if not torch.allclose(one.double(), two.double(), rtol=0, atol=close * top, equal_nan=True):
            return False
    return bool(both) or not (first or second)


def _is_mask(tensor: Tensor) -> bool:
    return tensor.dtype == torch.bool or (tensor.dim() == 4 and tensor.shape[1] == 1)


def _visible(mask: Tensor) -> Tensor:
    return mask if mask.dtype == torch.bool else mask > -1e4
