"""Images for one class of a model, in the form that the arguments of its forward ask for.

(rows, channels, height, width)               most models; an axis of time or of two images before
(rows, patches, values)                       beside sizes or places of patches: Siglip 2, Gemma 4
(patches of all images, values)               beside the grid of each image: Qwen2-VL
(rows, images, tiles, channels, height, ..)   beside the shape in which tiles lie: Mllama
"""

from __future__ import annotations

import inspect
import math

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from patchgen.verifying.inputs.arguments import LENGTH, ROWS, Tensors, batch, takes
from patchgen.verifying.inputs.placed import draw_normal

# Pixels each way where a configuration does not say how many; above a backbone.
IMAGE, PYRAMID = 32, 96
STAGES = 64  # of an encoder whose stages halve it
# In time, height and width; heights and widths can be merged by two or by four.
GRIDS = ((1, 4, 4), (1, 4, 8), (1, 8, 4))
# Patches in height and width: rows but the first are padded.
SHAPES = ((4, 4), (4, 2), (2, 3))
MEDIA = 2  # images of a row
# Where words of a text see some of several images of a row, or features have places of their own.
SEVERAL = "perceiver_embeddings"  # Idefics
SEEN_BY = ("cross_attention_mask", SEVERAL, "image_embeds_position_mask")


def images(model_class: type[PreTrainedModel], config: PreTrainedConfig, seed: int) -> Tensors:
    """Pixels, and what the forward of `model_class` takes beside them."""
    names = takes(model_class)
    owner = _owner_of(config)
    patch = getattr(owner, "patch_size", None)
    places = names & {"pixel_position_ids", "image_position_ids"}
    if {"grid_thw", "image_grid_thw"} & names:
        return _with_grids(names, owner, seed)
    if "spatial_shapes" in names:
        return _with_shapes(names, owner, seed)
    if places:
        return _with_places(min(places), owner, seed)
    if "aspect_ratio_ids" in names:
        return _in_tiles(owner, seed)
    pixels = draw_normal(seed, *_shape_of(model_class, config, owner))
    given = {"pixel_values": pixels}
    if "prompt_pixel_values" in names:  # which stands above the image
        above, below = pixels.chunk(2, -2)
        given = {
            "pixel_values": below,
            "prompt_pixel_values": above,
            "prompt_masks": above.flip(-1),
        }
    if "bool_masked_pos" in _required(model_class) and isinstance(patch, int):
        given["bool_masked_pos"] = _half_masked(pixels, owner, patch)
    if "qformer_input_ids" in names:
        words = batch(rows=ROWS, length=LENGTH, seed=seed).input_ids
        given |= {"qformer_input_ids": words, "qformer_attention_mask": torch.ones_like(words)}
    if SEVERAL in names:
        given["pixel_values"] = torch.stack([pixels, pixels.flip(-1)], 1)
    return given


def seen_by_words(names: frozenset[str], given: Tensors, config: PreTrainedConfig) -> Tensors:
    """Which words of `given` see which of its images: later ones, in each row from elsewhere."""
    rows, length = given["input_ids"].shape[:2]
    place = torch.arange(length)
    first = 1 + torch.arange(rows)[:, None, None]
    sees = (place[None, :, None] >= first + 3 * torch.arange(MEDIA)).long()  # (rows, words, images)
    found = {}
    if "cross_attention_mask" in names:
        found["cross_attention_mask"] = sees[..., None] * given["aspect_ratio_mask"][:, None]
    if SEVERAL in names:
        found["image_attention_mask"] = sees
    if "image_embeds_position_mask" in names:
        here = (place > 0) & (place <= config.latent_query_num)
        found["image_embeds_position_mask"] = here.long().expand(rows, -1)
    return found


def _owner_of(config: PreTrainedConfig) -> PreTrainedConfig:
    """The configuration of the model of images, or of its backbone."""
    named = ("vision_config", "image_config")
    return next(filter(None, (getattr(config, name, None) for name in named)), config)


def _shape_of(
    model_class: type[PreTrainedModel], config: PreTrainedConfig, owner: PreTrainedConfig
) -> list[int]:
    backbone = getattr(owner, "backbone_config", None)
    sizes = []
    for each in (owner, backbone):
        for name in ("image_size", "max_img_size"):
            sizes.append(getattr(each, name, None))
    usual = STAGES if hasattr(owner, "depths") else IMAGE if backbone is None else PYRAMID
    size = next(filter(None, sizes), usual)
    height, width = size if isinstance(size, list | tuple) else (size, size)
    # An axis of time, or of the two images that are matched.
    is_pair = "KeypointMatching" in model_class.__name__
    several = [2] if is_pair else [config.num_frames] if hasattr(config, "num_frames") else []
    return [ROWS, *several, getattr(owner, "num_channels", 3), height, width]


def _required(model_class: type[PreTrainedModel]) -> set[str]:
    parameters = inspect.signature(model_class.forward).parameters.items()
    return {name for name, each in parameters if each.default is inspect.Parameter.empty}


def _half_masked(pixels: Tensor, owner: PreTrainedConfig, patch: int) -> Tensor:
    """As many patches of each row, other ones in each."""
    frames = pixels.shape[1] // getattr(owner, "tubelet_size", 1) if pixels.dim() == 5 else 1
    patches = frames * (pixels.shape[-2] // patch) * (pixels.shape[-1] // patch)
    masked = torch.arange(patches) % 2 == 0
    return torch.stack([masked.roll(row) for row in range(ROWS)])


def _values_of(owner: PreTrainedConfig) -> list[int]:
    """The shape of a patch: its channels, height and width."""
    called = ("in_channels", "in_chans", "num_channels")
    channels = [getattr(owner, name) for name in called if hasattr(owner, name)]
    return [(*channels, 3)[0], owner.patch_size, owner.patch_size]


def _with_grids(names: frozenset[str], owner: PreTrainedConfig, seed: int) -> Tensors:
    """The patches of all images, one after the other, and how many each image has."""
    shape = _values_of(owner)
    if owner.model_type != "kimi_k25_vision":  # else they are not flattened
        shape = [math.prod(shape) * getattr(owner, "temporal_patch_size", 1)]
    patches = draw_normal(seed, sum(map(math.prod, GRIDS)), *shape)
    pixels = "hidden_states" if "hidden_states" in names else "pixel_values"
    grid = "grid_thw" if "grid_thw" in names else "image_grid_thw"
    given = {pixels: patches}
    if "merge_sizes" in names:
        given["merge_sizes"] = torch.full((len(GRIDS),), 2)
    given[grid] = torch.tensor(GRIDS)
    return given


def _with_shapes(names: frozenset[str], owner: PreTrainedConfig, seed: int) -> Tensors:
    shapes = torch.tensor(SHAPES)
    counts = shapes.prod(-1)
    most = int(counts.max())
    given = {
        "pixel_values": draw_normal(seed, ROWS, most, math.prod(_values_of(owner))),
        "pixel_attention_mask": (torch.arange(most) < counts[:, None]).long(),
        "spatial_shapes": shapes,
    }
    return {name: tensor for name, tensor in given.items() if name in names}


def _with_places(name: str, owner: PreTrainedConfig, seed: int) -> Tensors:
    side = torch.arange(2 * getattr(owner, "pooling_kernel_size", 2))
    places = torch.cartesian_prod(side, side)
    pixels = draw_normal(seed, ROWS, len(places), math.prod(_values_of(owner)))
    return {"pixel_values": pixels, name: places.expand(ROWS, -1, -1).clone()}


def _in_tiles(owner: PreTrainedConfig, seed: int) -> Tensors:
    """Images of one tile to as many as there may be."""
    ratios = owner.supported_aspect_ratios
    chosen = torch.arange(ROWS * MEDIA).view(ROWS, MEDIA) % len(ratios)
    areas = [height * width for height, width in ratios]
    tiles = torch.tensor(areas)[chosen]
    shape = (getattr(owner, "num_channels", 3), owner.image_size, owner.image_size)
    most = owner.max_num_tiles
    return {
        "pixel_values": draw_normal(seed, ROWS, MEDIA, most, *shape),
        "aspect_ratio_ids": chosen + 1,  # zero is no image
        "aspect_ratio_mask": (torch.arange(most) < tiles[..., None]).long(),
    }
