"""What a model does when checkpointing is switched on: which options it takes, and which layers it checkpoints."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import PreTrainedModel

from patchgen.parts.checkpoint.keeping import CHECKPOINT_POLICIES
from patchgen.parts.checkpoint.layer import checkpoint_layer

CHECKPOINT_OPTIONS = ("policy", "every", "use_reentrant", "preserve_rng_state", "determinism_check", "debug")


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
    if given.pop("context_fn", None) is not None:
        given["policy"] = "selective"
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
