"""Activation checkpointing: of every layer, of every k-th, or of all but the dear operations.

A model that has none gets it by two classes, of which transformers has the one for the layers.  One that has it gains
the choice of what is kept, by the second class alone.

    class MPNetLayer(mpnet.MPNetLayer, GradientCheckpointingLayer): ...
    class MPNetPreTrainedModel(Checkpointing, mpnet.MPNetPreTrainedModel): ...

Options are given where users of transformers give them: `gradient_checkpointing_kwargs` of `TrainingArguments` and of
`model.gradient_checkpointing_enable` (in releases that renamed them, `activation_checkpointing_...`).

    policy  "full" (the default): a layer's inputs are kept, the rest is computed again in the backward pass
            "selective": the outputs of matrix products and of attention are kept too, and not computed again
    every   k: the layers 0, k, 2k, ... are checkpointed, the others keep everything (transformers: `every_n_layers`)

`determinism_check` and `debug` go on to torch.  Refused, by a ValueError when it is switched on:

- any other option: torch would hand it to the layer, which swallows it.
- `use_reentrant=True`: what reaches a layer by keyword, or from frozen layers, would get no gradient.
- `preserve_rng_state=False`: the recompute would draw other dropout masks.
- keys and values that layers share, unless they go from layer to layer openly (`shared_kv_states`): a checkpointed
  layer has no cache.

and by an error when it runs: a cache with something in it, given by position; a layer whose buffers its own forward
changes, since the recompute would read and change them again.  Running statistics of batch norms, which training does
not read, are put back after the recompute instead.

A router decides once.  What it chose (top-k, sort, argmax) is kept under both policies, so that a recompute that
rounds otherwise sends no token to another expert.  Whether a layer chooses shows when it runs for the first time.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
    noop_context_fn,
)
from transformers.cache_utils import Cache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import PreTrainedModel

CHECKPOINT_OPTIONS = ("policy", "every", "use_reentrant", "preserve_rng_state", "determinism_check", "debug")

# Operations by their names in torch's registry: one that an installation does not have is never met.
CHOICES = frozenset({"aten::topk", "aten::sort", "aten::argmax", "aten::max"})
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
CHECKPOINT_POLICIES = {"full": CHOICES, "selective": CHOICES | PRODUCTS | BATCHED_PRODUCTS | ATTENTIONS}

# Stands for an output that the layer has changed since.
FORGOTTEN = object()


class Checkpointing:
    """Mixin of a `PreTrainedModel` whose layers are `GradientCheckpointingLayer`s."""

    supports_gradient_checkpointing = True

    def _set_gradient_checkpointing(
        self: Any,
        enable: bool = True,
        gradient_checkpointing_func: Callable[..., Any] = checkpoint,
        every_n_layers: int = 1,
    ) -> None:
        # All ways to switch checkpointing on end here, with the user's options bound to the function.  The base is
        # named because some parents override this in a style that leaves every layer as it was.
        if not enable:
            return PreTrainedModel._set_gradient_checkpointing(self, enable=False)
        given = dict(getattr(gradient_checkpointing_func, "keywords", {}))
        run = getattr(gradient_checkpointing_func, "func", gradient_checkpointing_func)
        policy, every = read_options(given, every_n_layers)
        layers = checkpointed_layers(self, every)
        passed_on = {name: given[name] for name in ("determinism_check", "debug") if name in given}
        function = partial(checkpoint_layer, run, policy, **passed_on)
        PreTrainedModel._set_gradient_checkpointing(self, enable=True, gradient_checkpointing_func=function)
        for index, layer in enumerate(layers):
            layer.gradient_checkpointing = index % every == 0


def read_options(given: dict[str, Any], every_n_layers: int = 1) -> tuple[str, int]:
    """The policy, and the k of "every k-th"; ValueError for what is not taken."""
    if "context_fn" in given:
        raise ValueError('context_fn is made from the policy: give {"policy": "selective"} in its place')
    if unknown := sorted(given.keys() - set(CHECKPOINT_OPTIONS)):
        raise ValueError(
            f"unknown options of checkpointing: {', '.join(unknown)}. There are {', '.join(CHECKPOINT_OPTIONS)}."
        )
    if given.get("use_reentrant"):
        raise ValueError(
            "use_reentrant=True is refused: what reaches a layer by keyword, or from frozen layers, would get no "
            "gradient. Leave it out."
        )
    if not given.get("preserve_rng_state", True):
        raise ValueError("preserve_rng_state=False is refused: the recompute would draw other dropout masks")
    policy = given.get("policy", "full")
    if policy not in tuple(CHECKPOINT_POLICIES):
        raise ValueError(f"policy={policy!r}: there are {', '.join(map(repr, CHECKPOINT_POLICIES))}")
    if given.get("debug") and policy != "full":
        raise ValueError('debug=True is for {"policy": "full"}: torch traces nothing else')
    every = given.get("every", 1)
    for value in (every, every_n_layers):
        if type(value) is not int or value < 1:
            raise ValueError(f"every={value!r}: it takes a whole number from 1 on")
    if 1 not in (every, every_n_layers) and every != every_n_layers:
        raise ValueError(f"every={every} and every_n_layers={every_n_layers} are two names for one number")
    return policy, max(every, every_n_layers)


def checkpointed_layers(model: nn.Module, every: int) -> list[nn.Module]:
    """The layers that can be checkpointed, in transformers' order; ValueError where the result would be wrong."""
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if every > 1 and len(layers) < 2:
        raise ValueError(
            f"every={every}: {type(model).__name__} has no two layers to tell apart. One that is used many times is "
            "checkpointed at each use."
        )
    shared = (getattr(getattr(each, "config", None), "num_kv_shared_layers", 0) for each in model.modules())
    if any(shared) and not any("shared_kv_states" in inspect.signature(each.forward).parameters for each in layers):
        raise ValueError(f"the layers of {type(model).__name__} share keys and values through a cache")
    return layers


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
    function, args = as_positional(function, without_cache(layer, args))
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


def without_cache(layer: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """`args` without a cache, which the recompute would fill a second time.

    transformers takes away the one that is given by name; an empty one given by position does not matter either.
    """
    if getattr(layer, "_can_checkpoint_with_cache", False):
        return args
    if any(isinstance(value, Cache) and value.get_seq_length() for value in args):
        raise ValueError(f"{type(layer).__name__} is checkpointed and was given a cache with something in it")
    return tuple(None if isinstance(value, Cache) else value for value in args)


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


def is_kept(policy: str, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the output of `operation` is kept from the forward pass: the same answer in the recompute."""
    name = name_of(operation)
    if name not in CHECKPOINT_POLICIES[policy]:
        return False
    if name in BATCHED_PRODUCTS:
        # Scores of attention are dear to keep and cheap to make; what comes of them is the other way round.
        (*_, rows, inner), columns = args[-2].shape, args[-1].shape[-1]
        return bool(rows * columns <= inner * (rows + columns))
    # Left out of the recompute, attention with dropout would not draw, and all dropout after it would change.
    return name not in ATTENTIONS or not argument_of(operation, "dropout_p", args, kwargs)


def keep_or_recompute(policy: str, context: Any, operation: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    """`is_kept`, as a compiler asks."""
    kept = is_kept(policy, operation, args, kwargs)
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


class Keeping(TorchDispatchMode):
    """Stands around the forward of a layer: holds what the policy keeps, by operation, in the order of the calls.

    torch's own contexts are not for layers as they come: they give back a product that the layer has changed in place
    since, and stop at casts that autocast makes once for several layers.
    """

    supports_higher_order_operators = True

    def __init__(self, policy: str) -> None:
        super().__init__()
        self.policy = policy
        self.used = self.met_a_choice = False
        self.outputs: dict[Any, list[Any]] = {}
        self.places: dict[int, tuple[list[Any], int]] = {}  # by storage: where in `outputs`

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, self.used = kwargs or {}, True
        if self.places:
            self.forget(written_by(operation, args, kwargs))
        output = operation(*args, **kwargs)
        if is_kept(self.policy, operation, args, kwargs):
            self.keep(operation, output)
        return output

    def keep(self, operation: Any, output: Any) -> None:
        calls = self.outputs.setdefault(operation, [])
        if name_of(operation) in CHOICES:
            # A router may scale in place what it chose, and is not to choose again: a copy, which is small.
            self.met_a_choice = True
            calls.append(tree_map_only(torch.Tensor, torch.clone, output))
            return
        for tensor in tensors_in(output):
            self.places[storage_of(tensor)] = calls, len(calls)
        # Not the tensor itself, which autograd ties to its graph.
        calls.append(tree_map_only(torch.Tensor, torch.Tensor.detach, output))

    def forget(self, changing: Iterable[torch.Tensor]) -> None:
        """What shares its storage with one of `changing` will be computed again."""
        for tensor in changing:
            calls, index = self.places.pop(storage_of(tensor), ([None], 0))
            calls[index] = FORGOTTEN


class Replaying(TorchDispatchMode):
    """Stands around each recompute: what is kept takes the place of the calls that gave it."""

    supports_higher_order_operators = True

    def __init__(self, kept: Keeping) -> None:
        super().__init__()
        self.kept = kept

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __enter__(self) -> Any:
        self.left = {operation: iter(outputs) for operation, outputs in self.kept.outputs.items()}
        return super().__enter__()

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not is_kept(self.kept.policy, operation, args, kwargs):
            return operation(*args, **kwargs)
        output = next(self.left.get(operation, iter(())), None)
        if output is None:
            raise RuntimeError(f"{operation} is called more often in the recompute than in the forward pass")
        if output is FORGOTTEN:
            return operation(*args, **kwargs)
        anew = torch.clone if name_of(operation) in CHOICES else torch.Tensor.detach
        return tree_map_only(torch.Tensor, anew, output)


def name_of(operation: Any) -> str:
    """`aten::max` for each overload of it."""
    return str(operation.name()).partition(".")[0]


def parameters_of(operation: Any) -> Sequence[Any]:
    """As its schema has them; an operation of higher order has no schema."""
    return operation._schema.arguments if hasattr(operation, "_schema") else ()


def argument_of(operation: Any, wanted: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The value of an argument in a call of `operation`; None where it takes none of that name."""
    for index, each in enumerate(parameters_of(operation)):
        if each.name == wanted:
            return kwargs.get(wanted, args[index] if index < len(args) else each.default_value)
    return None


def written_by(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """The tensors that a call of `operation` changes in place."""
    for index, each in enumerate(parameters_of(operation)):
        if each.alias_info is not None and each.alias_info.is_write:
            yield from tensors_in(kwargs.get(each.name, args[index] if index < len(args) else None))


def tensors_in(values: Any) -> list[torch.Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]


def storage_of(tensor: torch.Tensor) -> int:
    """One number for all views of it, also for those that torch does not count as views (`_unsafe_view`)."""
    return int(tensor.untyped_storage()._cdata)


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
