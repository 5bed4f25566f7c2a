"""What the cases of a variant have run: a verdict says nothing of a class or an input beside it.

`observe_step` notes every class that runs, every class that learns, and the arguments of the
forward.  What the variant changes or takes, and no case has run, is not proven:

    not proven: `Gemma3VisionLayer` never ran; no image was fed
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from transformers import PreTrainedModel

from patchgen.verifying.inputs.arguments import takes

# What happened, and to which class or argument.
Happened = tuple[Literal["ran", "learned", "given", "padded"], str]
# By the names of arguments that a forward has for them.
MODALITIES: Mapping[str, re.Pattern[str]] = {
    "image": re.compile(r"pixel_values(_images)?|images?|flattened_patches|visual_feats"),
    "video": re.compile(r"pixel_values_videos|video_values"),
    "sound": re.compile(r"input_features|input_values|audio_values|audio_features|spectrogram"),
    "time series": re.compile(r"past_values"),
}
MASKS_OF_SOUNDS = ("feature_attention_mask", "input_features_mask", "padding_mask")

_noted: list[tuple[str, set[Happened]]] = []  # modules that are noted now, and what of each


@contextmanager
def noting(module: str) -> Iterator[set[Happened]]:
    """What happens inside it to the classes of `module`."""
    happened: set[Happened] = set()

    def note_call(layer: nn.Module, given: Any, out: Any) -> None:
        happened.update(("ran", name) for name in _classes_of(layer, module))

    hook = register_module_forward_hook(note_call)
    _noted.append((module, happened))
    try:
        yield happened
    finally:
        _noted.pop()
        hook.remove()


def note_step(model: nn.Module, given: Mapping[str, Tensor], gradients: Collection[str]) -> None:
    """Note what `model` was given, and which layers have a parameter among `gradients`."""
    for module, happened in _noted:
        for name, layer in model.named_modules():
            if _learns(name, layer, gradients):
                for each in _classes_of(layer, module):
                    happened.add(("learned", each))
        for name, tensor in given.items():
            happened.add(("given", name))
            if name.endswith("mask") and not tensor.bool().all():
                happened.add(("padded", name))


def _classes_of(layer: nn.Module, module: str) -> Iterator[str]:
    return (each.__name__ for each in type(layer).__mro__ if each.__module__ == module)


def _learns(name: str, layer: nn.Module, gradients: Collection[str]) -> bool:
    """Whether a parameter in it has a gradient, or none can have one."""
    can_learn = [own for own, parameter in layer.named_parameters() if parameter.requires_grad]
    prefix = f"{name}." if name else ""
    return not can_learn or any(f"{prefix}{own}" in gradients for own in can_learn)


def find_missing(
    module: ModuleType,
    changed: Sequence[str],
    heads: Collection[str],
    happened: Collection[Happened],
) -> tuple[str, ...]:
    """What no case has run of the `changed` classes of `module`, and of what `heads` take."""
    missing = []
    for name in changed:
        if _is_layer(getattr(module, name, None)):
            if ("ran", name) not in happened:
                missing.append(f"`{name}` never ran")
            elif ("learned", name) not in happened:
                missing.append(f"no parameter of `{name}` had a gradient")
    taken = [takes(getattr(module, head)) for head in heads]
    missing += [f"no {kind} was fed" for kind in MODALITIES if _is_unfed(kind, taken, happened)]
    masks = _find_masks_of_sounds(taken)
    if masks and not any(("padded", name) in happened for name in masks):
        missing.append("no padded sound was fed")
    return tuple(missing)


def _is_layer(found: Any) -> bool:
    is_class = isinstance(found, type) and issubclass(found, nn.Module)
    is_base = is_class and issubclass(found, PreTrainedModel)
    return is_class and not (is_base and found.__name__.endswith("PreTrainedModel"))


def _is_unfed(kind: str, taken: Sequence[frozenset[str]], happened: Collection[Happened]) -> bool:
    names = [name for each in taken for name in each if MODALITIES[kind].fullmatch(name)]
    return bool(names) and not any(("given", name) in happened for name in names)


def _find_masks_of_sounds(taken: Sequence[frozenset[str]]) -> list[str]:
    masks = []
    for names in taken:
        if any(map(MODALITIES["sound"].fullmatch, names)):
            masks += [name for name in MASKS_OF_SOUNDS if name in names]
            if "input_ids" not in names and "attention_mask" in names:
                masks.append("attention_mask")
    return masks
