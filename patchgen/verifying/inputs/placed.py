"""Images, videos and sounds in a text: a placeholder token for each of their features.

The model itself says how many features an image has: a tiny one is asked, by the method that its
own forward asks.  Each row has an image of its own, the first row one more.

    input_ids            5  8  BEGIN IMAGE IMAGE IMAGE IMAGE END  3  9
    mm_token_type_ids    0  0    0     1     1     1     1    0   0  0
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from patchgen.syntax.errors import describe_error
from patchgen.verifying.inputs.arguments import (
    FIRST_WORD,
    LENGTH,
    PLACED,
    ROWS,
    Batch,
    CannotBuild,
    Tensors,
    batch,
    takes,
)
from patchgen.verifying.inputs.sounds import sound_forms

# The number of each kind among types of tokens.
TYPES = {"image": 1, "video": 2, "audio": 3}
ROWS_OF = (0, 0, 1, 2)  # the row of each image
SEVERAL = 2  # images a row, where each has as many
IMAGE = 32  # pixels each way where a configuration does not say how many
# In time, height and width; heights and widths can be merged by two or by four.
FRAMES_OF_VIDEO = 2
GRIDS = {"image": (1, 4, 4), "video": (FRAMES_OF_VIDEO, 4, 4)}
SHORT = {"start": "bo", "end": "eo"}  # "boi_token_id": the beginning of an image
# Where forwards take the numbers of `TYPES`.
TYPED = ("mm_token_type_ids", "token_type_ids")
MANY = 128  # placeholders in a row


@dataclass(frozen=True, slots=True)
class Form:
    """What a method that gives features takes, and the row of each image in it."""

    given: Tensors
    rows: Sequence[int] = ROWS_OF


@dataclass(frozen=True, slots=True)
class Block:
    """The placeholders of one image."""

    row: int
    kind: str
    token: int
    count: int


@dataclass(frozen=True, slots=True)
class Placed:
    """The arguments of a forward, and where their features go in its text."""

    given: Tensors = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()

    @property
    def length(self) -> int:
        """Tokens that a text has to be longer: each block begins and ends with one more."""
        lengths = [0] * ROWS
        for block in self.blocks:
            lengths[block.row] += block.count + 2
        return max(lengths)


def place_all(
    kinds: Sequence[str], model_class: type[PreTrainedModel], config: PreTrainedConfig, seed: int
) -> Placed:
    """All of `kinds` that a scenario asks for.  Raises CannotBuild."""
    given = {}
    blocks: list[Block] = []
    for kind in kinds:
        placed = _place(PLACED[kind], model_class, config, seed)
        given.update(placed.given)
        blocks.extend(placed.blocks)
    return Placed(given, tuple(blocks))


def has_images(model_class: type[PreTrainedModel], config: PreTrainedConfig) -> bool:
    has_token = _find_token(config, "image") is not None
    return has_token and hasattr(model_class, "get_image_features")


# --- the text


def put_into(text: Batch, placed: Placed, config: PreTrainedConfig) -> Tensors:
    """`text` with a block of placeholders for each image behind its first real token."""
    ids = text.input_ids.clone()
    for token in special_tokens(config):
        ids[ids == token] = FIRST_WORD
    types = torch.zeros_like(ids)
    places = [int(real.nonzero()[0]) + 1 for real in text.real]
    for block in placed.blocks:
        row = block.row
        begin = places[row]
        first = begin + 1
        end = first + block.count
        ids[row, begin] = _find_border(config, block.kind, "start")
        ids[row, first:end] = block.token
        ids[row, end] = _find_border(config, block.kind, "end")
        types[row, first:end] = TYPES[block.kind]
        places[row] = end + 1
    return {"input_ids": ids, "mm_token_type_ids": types, "token_type_ids": types}


def special_tokens(config: PreTrainedConfig) -> list[int]:
    """Of images and the like; what begins and ends a text is below all words."""
    named = config.to_dict().items()
    tokens = [value for name, value in named if name.endswith(("_token_id", "_token_index"))]
    return [each for each in tokens if isinstance(each, int) and each >= FIRST_WORD]


def _find_token(config: PreTrainedConfig, kind: str) -> int | None:
    named = (getattr(config, f"{kind}_token_{ending}", None) for ending in ("id", "index"))
    return next((each for each in named if each is not None), None)


def _find_border(config: PreTrainedConfig, kind: str, place: str) -> int:
    """The token at the start or the end of an image; a word, where the model has none for it."""
    names = [
        f"{kind}_{place}_token_id",
        f"vision_{place}_token_id",
        f"{SHORT[place]}{kind[0]}_token_id",
    ]
    for name in names:
        token = getattr(config, name, None)
        if isinstance(token, int) and not (kind == "audio" and name.startswith("vision")):
            return token
    return FIRST_WORD


# --- the features


def _place(
    kind: str, model_class: type[PreTrainedModel], config: PreTrainedConfig, seed: int
) -> Placed:
    """The first form with which the model runs, and how many features each image has in it."""
    key = kind, model_class, config.to_json_string(), seed
    if key not in _known:
        _known[key] = _find_form(kind, model_class, config, seed)
    known = _known[key]
    if isinstance(known, str):
        raise CannotBuild(known)
    return known


_known: dict[Any, Placed | str] = {}


def _find_form(
    kind: str, model_class: type[PreTrainedModel], config: PreTrainedConfig, seed: int
) -> Placed | str:
    """What is placed, or why nothing is."""
    method = getattr(model_class, f"get_{kind}_features", None)
    if method is None or _find_token(config, kind) is None:
        return f"it puts no {kind} into its text"
    names = _arguments_of(method, model_class)
    model = model_class(config).eval()
    refusals = []
    for form in FORMS[kind](names, config, seed):
        try:
            counts = _count_each(partial(_run, method, model), form)
        except Exception as error:  # each model has its own for what it does not take
            refusals.append(describe_error(error, 120))
            continue
        for placed in _placements(kind, form, counts, config):
            text = batch(rows=ROWS, length=LENGTH + placed.length, seed=seed)
            try:
                _run(model_class.__call__, model, given_with(text, placed, model_class, config))
            except Exception as error:
                refusals.append(describe_error(error, 120))
            else:
                return placed
    return f"no form of {kind} that it takes is known: {'; '.join(dict.fromkeys(refusals))}"


def first_that_runs(
    model_class: type[PreTrainedModel],
    config: PreTrainedConfig,
    forms: Iterator[Tensors],
) -> Tensors:
    """The first arguments that a tiny model takes.  Raises CannotBuild."""
    model = model_class(config).eval()
    refusals = []
    for given in forms:
        try:
            _run(model_class.__call__, model, given)
        except Exception as error:  # each model has its own for what it does not take
            refusals.append(describe_error(error, 120))
        else:
            return given
    known = ", ".join(sorted(takes(model_class) - {"self"}))
    said = f": {'; '.join(dict.fromkeys(refusals))}" if refusals else ""
    raise CannotBuild(f"no inputs are known for a forward of {known}{said}")


def _run(function: Callable[..., Any], model: PreTrainedModel, given: Mapping[str, Tensor]) -> Any:
    narrow = {n: t.float() if t.is_floating_point() else t for n, t in given.items()}
    with torch.no_grad():
        return function(model, **narrow)


def _placements(
    kind: str, form: Form, counts: Sequence[int], config: PreTrainedConfig
) -> Iterator[Placed]:
    """By the token of its kind, or as an image's; a video whole, or each of its frames alone."""
    tokens = [_find_token(config, each) for each in dict.fromkeys((kind, "image"))]
    for token in tokens:
        for parts in (1, FRAMES_OF_VIDEO) if kind == "video" else (1,):
            if token is not None:
                blocks = [
                    Block(row, kind, token, count // parts)
                    for row, count in zip(form.rows, counts, strict=True)
                    for _ in range(parts)
                ]
                placed = Placed(form.given, tuple(blocks))
                if placed.length <= MANY:
                    yield placed


def given_with(
    text: Batch, placed: Placed, model_class: type[PreTrainedModel], config: PreTrainedConfig
) -> Tensors:
    """The arguments of a forward for `text` with what is placed in it."""
    found = put_into(text, placed, config)
    names = takes(model_class)
    given = {"input_ids": found["input_ids"], **placed.given}
    if placed.blocks:
        given |= {name: found[name] for name in TYPED if name in names}
    return given


def _arguments_of(method: Callable[..., Any], model_class: type[PreTrainedModel]) -> frozenset[str]:
    """Those of the forward that `method` takes, or hands on under a name for the rest."""
    own = inspect.signature(method).parameters
    hands_on = any(each.kind is each.VAR_KEYWORD for each in own.values())
    return takes(model_class) if hands_on else takes(model_class) & own.keys()


def _count_each(run: Callable[[Mapping[str, Tensor]], Any], form: Form) -> list[int]:
    images = len(form.rows)
    try:
        return _count(run(form.given), images)
    except ValueError:  # sounds of other lengths have other numbers of features
        alone = [{n: t[at : at + 1] for n, t in form.given.items()} for at in range(images)]
        return [sum(_count(run(each), 1)) for each in alone]


def _count(out: Any, images: int) -> list[int]:
    """How many features each of so many images has."""
    features = getattr(out, "pooler_output", None)
    features = out if features is None else features
    if isinstance(features, tuple) and isinstance(features[0], tuple | list):
        features = features[0]
    if not isinstance(features, Tensor):
        counts = [math.prod(each.shape[:-1]) for each in features]
    elif features.dim() == 2:
        counts = [len(features)]
    else:
        counts = [math.prod(features.shape[1:-1])] * len(features)
    if len(counts) == images:
        return counts
    each, rest = divmod(sum(counts), images)  # tiles of one image are counted alone
    if rest:
        raise ValueError(f"{sum(counts)} features of {images} images")
    return [each] * images


def draw_normal(seed: int, *shape: int) -> Tensor:
    """Normal values, the same for the same seed."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=draw, dtype=torch.float64)


# --- forms of images and videos


def _pixel_forms(
    kind: str, names: frozenset[str], config: PreTrainedConfig, seed: int
) -> Iterator[Form]:
    vision = _part_of(config, "vision_config")
    pixels = "pixel_values" if kind == "image" else "pixel_values_videos"
    number = len(ROWS_OF)
    if f"{kind}_grid_thw" in names:
        yield from _in_patches(pixels, f"{kind}_grid_thw", kind, names, vision, seed)
        return
    size = _size_of(vision)
    channels = getattr(vision, "num_channels", 3)
    square = (channels, size, size)
    patch = getattr(vision, "patch_size", 1)
    if not isinstance(patch, int):
        patch = patch[-1]
    side = 4 if kind == "image" else 2
    flat = channels * patch * patch
    if f"{kind}_position_ids" in names:
        merged = getattr(vision, "pooling_kernel_size", 2) * 2
        places = torch.cartesian_prod(torch.arange(merged), torch.arange(merged))
        shape = (number, merged**2, flat)
        position = {f"{kind}_position_ids": places.expand(number, -1, -1)}
        yield Form({pixels: draw_normal(seed, *shape), **position})
        return
    if "spatial_shapes" in names:
        given = {
            pixels: draw_normal(seed, number, side * side, flat),
            "pixel_attention_mask": torch.ones(number, side * side, dtype=torch.long),
            "spatial_shapes": torch.full((number, 2), side),
        }
        yield Form({name: tensor for name, tensor in given.items() if name in names})
        return
    if getattr(config, "image_grid_pinpoints", None) and "image_sizes" in names:
        height, width = config.image_grid_pinpoints[0]
        several = 1 + (height // size) * (width // size)
        sizes = torch.tensor([[height, width]]).expand(number, 2)
        given = {pixels: draw_normal(seed, number, several, *square), "image_sizes": sizes}
        yield Form(given)
    frames = (FRAMES_OF_VIDEO,) if kind == "video" else ()
    one_each = draw_normal(seed, number, *frames, *square)
    yield Form({pixels: one_each})
    if "image_sizes" in names:
        yield Form({pixels: one_each, "image_sizes": torch.full((number, 2), size)})
    if "qformer_input_ids" in names:
        words = batch(rows=number, length=LENGTH, seed=seed).input_ids
        asked = {"qformer_input_ids": words, "qformer_attention_mask": torch.ones_like(words)}
        yield Form({pixels: one_each, **asked})
    rows = [row for row in range(ROWS) for _ in range(SEVERAL)]
    given = {pixels: draw_normal(seed, ROWS, SEVERAL, *frames, *square)}
    if "pixel_attention_mask" in names:
        given["pixel_attention_mask"] = torch.ones(ROWS, SEVERAL, size, size, dtype=torch.long)
    yield Form(given, rows)


def _part_of(config: PreTrainedConfig, name: str) -> PreTrainedConfig:
    """The configuration of this name, however deep inside `config`; or all of `config`."""
    for part in config.sub_configs:
        inner = getattr(config, part, None)
        if not isinstance(inner, PreTrainedConfig):
            continue
        found = inner if part == name else _part_of(inner, name)
        if part == name or found is not inner:
            return found
    return config


def _in_patches(
    pixels: str, grid: str, kind: str, names: frozenset[str], vision: PreTrainedConfig, seed: int
) -> Iterator[Form]:
    """The patches of all images, one after the other, flat or not, and how many each image has."""
    channels = _first_of(vision, ("in_channels", "in_chans", "num_channels"), 3)
    times = _first_of(vision, ("temporal_patch_size", "patch_temporal"), 1)
    square = (channels, vision.patch_size, vision.patch_size)
    number = len(ROWS_OF)
    grids = torch.tensor([GRIDS[kind]] * number)
    patches = int(grids.prod(-1).sum())
    sizes = {grid: grids}
    for name in names:
        if name.endswith("merge_sizes"):
            sizes[name] = torch.full((number,), 2)
    flat = (times * math.prod(square),)
    for shape in (flat, square):
        values = draw_normal(seed, patches, *shape)
        yield Form({pixels: values, **sizes})


def _first_of(config: PreTrainedConfig, names: Sequence[str], otherwise: int) -> int:
    return next((getattr(config, name) for name in names if hasattr(config, name)), otherwise)


def _size_of(vision: PreTrainedConfig) -> int:
    size = getattr(vision, "image_size", None) or IMAGE
    return size if isinstance(size, int) else size[0]


def _sounds(names: frozenset[str], config: PreTrainedConfig, seed: int) -> Iterator[Form]:
    for given in sound_forms(names, config, len(ROWS_OF), padded=True, seed=seed):
        yield Form(given)


FORMS: Mapping[str, Callable[[frozenset[str], PreTrainedConfig, int], Iterator[Form]]] = {
    "image": lambda *given: _pixel_forms("image", *given),
    "video": lambda *given: _pixel_forms("video", *given),
    "audio": _sounds,
}
