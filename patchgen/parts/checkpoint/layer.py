"""One layer run under checkpointing: what it is called with, and what stands around its forward and each recompute."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only
from torch.utils.checkpoint import create_selective_checkpoint_contexts, noop_context_fn
from transformers.cache_utils import Cache

from patchgen.parts.checkpoint.keeping import Keeping, Replaying, keep_or_recompute, tensors_in


def checkpoint_layer(
    run: Callable[..., Any], policy: str, function: Callable[..., Any], *args: Any, **passed_on: Any
) -> Any:
    """`function(*args)` under `policy`, where `function` is a layer's forward with keyword arguments bound to it.

    `run` is torch's `checkpoint`, or transformers' function around it that also offloads.
    """
    if torch.compiler.is_compiling():
        # The compiler plans the recompute itself, from the policy: it takes no other contexts.
        compiled = partial(create_selective_checkpoint_contexts, partial(keep_or_recompute, policy))
        return run(function, *args, use_reentrant=False, context_fn=compiled, **passed_on)
    layer = owner_of(function)
    function, args = as_positional(with_own_caches(layer, function, args), args)
    if not torch.is_grad_enabled():
        return function(*args)
    before = [(module, name, buffer, times_written(buffer)) for module, name, buffer in own_buffers(layer)]
    keeping = Keeping(policy)
    context_fn = noop_context_fn if passed_on.get("debug") else partial(checkpoint_contexts, layer, keeping)
    output = run(function, *args, use_reentrant=False, context_fn=context_fn, **passed_on)
    # What leaves the layer may be changed in place where nobody sees it.
    keeping.forget(tensors_in(output))
    refuse_changed_buffers(layer, before)
    if keeping.used:
        layer.makes_choices = keeping.met_a_choice
    return output


def owner_of(function: Callable[..., Any]) -> nn.Module:
    """The layer whose forward `function` is: bound to it as a method, or by `partial`."""
    while isinstance(function, partial) and not (function.args and isinstance(function.args[0], nn.Module)):
        function = function.func
    found = function.args[0] if isinstance(function, partial) else getattr(function, "__self__", function)
    if not isinstance(found, nn.Module):
        raise TypeError(f"{function} is no module's forward")
    return found


def with_own_caches(layer: nn.Module, function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """The same call, in which each run fills a cache of its own: a recompute would fill the one that is given again.

    transformers takes away what is called `past_key_values`.  An empty one of another name, or of none, is copied, and
    not taken away, so that a layer computes in the steps in which it does without checkpointing.
    """
    given = [*args, *(function.keywords.values() if isinstance(function, partial) else ())]
    caches = [value for value in given if isinstance(value, Cache)]
    if not caches or getattr(layer, "_can_checkpoint_with_cache", False):
        return function
    if any(cache.get_seq_length() for cache in caches):
        raise ValueError(
            f"{type(layer).__name__} is checkpointed and was given a cache with something in it: give use_cache=False"
        )
    if isinstance(function, partial):
        return partial(run_with_copies, function.func, *function.args, **function.keywords)
    return partial(run_with_copies, function)


def run_with_copies(run: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """`run(*args, **named)` with a copy of each cache, for which the cache itself stands in what is returned."""
    caches = {id(value): value for value in (*args, *named.values()) if isinstance(value, Cache)}
    copies = {key: copied(cache) for key, cache in caches.items()}
    output = run(
        *(copies.get(id(value), value) for value in args),
        **{name: copies.get(id(value), value) for name, value in named.items()},
    )
    back = {id(own): caches[key] for key, own in copies.items()}
    return tree_map_only(Cache, lambda value: back.get(id(value), value), output)


def copied(cache: Cache) -> Cache:
    """A copy that can be filled.  What other layers wrote is not written in place, and stays what it is."""
    parts = [cache, *(value for value in vars(cache).values() if isinstance(value, Cache))]
    layers = [layer for part in parts for layer in getattr(part, "layers", ())]
    kept = {id(value): value for layer in layers for value in vars(layer).values() if isinstance(value, torch.Tensor)}
    return copy.deepcopy(cache, kept)


def as_positional(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The same call with at least one tensor in `args`, if there is one at all.

    torch keeps the random state of the devices on which it finds `args`: without any, dropout on a GPU would be drawn
    anew in the recompute.
    """
    if any(isinstance(value, torch.Tensor) for value in args) or not isinstance(function, partial):
        return function, args
    given = function.keywords
    names = tuple(name for name, value in given.items() if isinstance(value, torch.Tensor))
    call = partial(function.func, *function.args, **{name: given[name] for name in given if name not in names})

    def with_names(*values: Any) -> Any:
        return call(*values[len(names) :], **dict(zip(names, values, strict=False)))

    return with_names, (*(given[name] for name in names), *args)


def checkpoint_contexts(
    layer: nn.Module, keeping: Keeping
) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """What stands around the forward of `layer`, and around each recompute."""
    statistics = [buffer for module, _, buffer in own_buffers(layer) if is_statistic(module)]
    if keeping.policy == "full" and not getattr(layer, "makes_choices", True):
        # Nothing to keep: the modes, through which each operation passes in Python, are spared.
        return nullcontext(), PuttingBack(nullcontext(), statistics)
    return keeping, PuttingBack(Replaying(keeping), statistics)


class PuttingBack:
    """The context `inner`, after which `tensors` are what they were.  It can be entered again."""

    def __init__(self, inner: AbstractContextManager[Any], tensors: Sequence[torch.Tensor]) -> None:
        self.inner = inner
        self.tensors = tensors

    def __enter__(self) -> None:
        self.before = [tensor.clone() for tensor in self.tensors]
        self.inner.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.inner.__exit__(*error)
        with torch.no_grad():
            for tensor, value in zip(self.tensors, self.before, strict=True):
                tensor.copy_(value)


def own_buffers(layer: nn.Module) -> Iterator[tuple[nn.Module, str, torch.Tensor]]:
    """Every buffer of `layer`: the module that has it, its name there, and itself."""
    for module in layer.modules():
        for name, buffer in module.named_buffers(recurse=False):
            yield module, name, buffer


def is_statistic(module: nn.Module) -> bool:
    """Whether the buffers of `module` are written in training and read outside it only."""
    return module.training and isinstance(module, nn.modules.batchnorm._BatchNorm)


def times_written(buffer: torch.Tensor) -> int:
    """How often `buffer` was written in place, as far as torch counts it."""
    return 0 if buffer.is_inference() else buffer._version


def refuse_changed_buffers(layer: nn.Module, before: list[tuple[nn.Module, str, torch.Tensor, int]]) -> None:
    """NotImplementedError where a buffer is not what it was `before`, unless it is a statistic."""
    for module, name, buffer, written in before:
        changed = getattr(module, name) is not buffer or times_written(buffer) != written
        if changed and not is_statistic(module):
            raise NotImplementedError(
                f"{type(layer).__name__} cannot be checkpointed: {type(module).__name__} changes its {name} in the "
                "forward pass, and would again in the recompute"
            )
