"""Images and frames, and the text that goes with them.

Sizes come from the tiny configuration or from that of its backbone.
"""

from __future__ import annotations

import math

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from patchgen.verify.inputs.arguments import LENGTH, ROWS, Inputs, takes
from patchgen.verify.inputs.batch import batch

IMAGE, PYRAMID = (
    32,
    96,
)  # pixels each way where a configuration does not say how many; above a backbone

# In time, height and width; heights and widths can be merged by two or by four.
GRIDS = ((1, 4, 4), (1, 4, 8), (1, 8, 4))
SQUARE = ("kimi_k25_vision",)  # whose patches are not flattened


def patch_inputs(names: frozenset[str], config: PreTrainedConfig, seed: int) -> Inputs:
    """The patches of all images, one after the other, and how many each image has."""
    names_of_channels = ("in_channels", "in_chans", "num_channels")
    channels = [getattr(config, each) for each in names_of_channels if hasattr(config, each)]
    shape = [(channels or [3])[0], config.patch_size, config.patch_size]
    if config.model_type not in SQUARE:
        shape = [math.prod(shape) * getattr(config, "temporal_patch_size", 1)]
    grids = torch.tensor(GRIDS)
    draw = torch.Generator().manual_seed(seed)
    count = int(grids.prod(-1).sum())
    patches = torch.randn(count, *shape, generator=draw, dtype=torch.float64)
    given = {"hidden_states" if "hidden_states" in names else "pixel_values": patches}
    if "merge_sizes" in names:
        given["merge_sizes"] = torch.full((len(GRIDS),), 2)
    return Inputs({**given, "grid_thw": grids})


def image_inputs(model_class: type[PreTrainedModel], config: PreTrainedConfig, seed: int) -> Inputs:
    """Images or frames, and what is asked about them."""
    names, made = (
        takes(model_class),
        images(config, seed, pair="KeypointMatching" in model_class.__name__),
    )
    if "pixel_values" not in names:
        frames = torch.stack([made.given["pixel_values"], made.given["pixel_values"].flip(-1)], 1)
        return Inputs({"pixel_values_videos": frames})
    for name in ("task_inputs", "tasks_input_ids", "classes_input_ids"):
        if name in names:
            made.given[name] = batch("none", rows=ROWS, length=LENGTH, seed=seed).input_ids
    for name in ("tasks_attention_mask", "classes_attention_mask"):
        if name in names:
            made.given[name] = torch.ones(ROWS, LENGTH, dtype=torch.long)
    if "classes_structure" in names:
        made.given["classes_structure"] = torch.ones(ROWS, dtype=torch.long)
    return made


def images(config: PreTrainedConfig, seed: int, *, pair: bool = False) -> Inputs:
    owner = (
        getattr(config, "vision_config", None) or getattr(config, "image_config", None) or config
    )
    height, width = _image_size(owner)
    draw = torch.Generator().manual_seed(seed)
    channels = getattr(owner, "num_channels", 3)
    # An axis of time, or of the two images that are matched.
    several = [2] if pair else [config.num_frames] if hasattr(config, "num_frames") else []
    shape = (ROWS, *several, channels, height, width)
    return Inputs({"pixel_values": torch.randn(shape, generator=draw, dtype=torch.float64)})


def _image_size(owner: PreTrainedConfig) -> tuple[int, int]:
    """By the configuration or by that of its backbone."""
    for config in (owner, getattr(owner, "backbone_config", None)):
        for name in ("image_size", "max_img_size"):
            size = getattr(config, name, None)
            if size:
                height, width = size if isinstance(size, list | tuple) else (size, size)
                return height, width
    side = IMAGE if getattr(owner, "backbone_config", None) is None else PYRAMID
    return side, side
