"""The arguments of a forward, masks of the real tokens in them, and other ways to call a model.

`Scenario.ways` names a way.  `apply_argument_styles` raises `CannotBuild` if the model does not
know it.  The ways that change the model itself are in `observe.step`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from patchgen.facts.sizes import SIZES

ROWS = 3
LENGTH = 13  # of text
ANSWER = 9  # tokens of a decoder behind an encoder
BOUNDARY = 6  # of two texts in one row
LARGEST = 5_000_000  # parameters
FIRST_WORD = 3  # tokens below are special


# By the names of a forward's arguments.
Tensors = dict[str, Tensor]


class CannotBuild(Exception):
    """A model or its inputs cannot be made here; the message says why."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Arguments of a forward, and a mask of real tokens for each sequence length."""

    given: Tensors
    real: tuple[Tensor, ...] = ()  # bool, (rows, length)
    options: Mapping[str, Any] = field(default_factory=dict)  # further ones, which are no tensors

    def to(self, device: str, dtype: torch.dtype) -> Inputs:
        given = {
            name: tensor.to(device, dtype if tensor.is_floating_point() else None)
            for name, tensor in self.given.items()
        }
        return replace(self, given=given, real=tuple(mask.to(device) for mask in self.real))

    def rows(self, first: int, last: int) -> Inputs:
        given = {name: tensor[first:last] for name, tensor in self.given.items()}
        return replace(self, given=given, real=tuple(mask[first:last] for mask in self.real))

    @property
    def lengths(self) -> frozenset[int]:
        """The lengths of the sequences that attention may run over."""
        return frozenset(mask.shape[1] for mask in self.real)


def takes(model_class: type[PreTrainedModel]) -> frozenset[str]:
    return frozenset(inspect.signature(model_class.forward).parameters)


# --- random text

Padding = Literal["none", "right", "left", "short"]


@dataclass(frozen=True, slots=True)
class Batch:
    """Tokens of shape (rows, length), their labels, and which of the tokens are real."""

    input_ids: Tensor
    attention_mask: Tensor | None  # None: nothing is padded
    labels: Tensor
    real: Tensor  # bool

    def inputs(self) -> Tensors:
        """The arguments of a model's forward; no mask where nothing is padded."""
        mask = {} if self.attention_mask is None else {"attention_mask": self.attention_mask}
        return {"input_ids": self.input_ids, **mask, "labels": self.labels}


def batch(padding: Padding = "none", *, rows: int = 3, length: int = 13, seed: int = 0) -> Batch:
    """Random words.  Row n has five times n tokens of padding at the given side, row 0 has none.

    "short" is padded on the right: two tokens less than all, one token, and a third of all.

    A token that follows padding has no label: a causal model would predict it from a padded token,
    whose output does not matter.
    """
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(FIRST_WORD, SIZES["vocab_size"], (rows, length), generator=draw)
    real = torch.ones(rows, length, dtype=torch.bool)
    mask = None
    if padding != "none":
        kept = length - 5 * torch.arange(rows)[:, None]
        if padding == "short":
            kept = torch.tensor([length - 2, 1, length // 3])
            kept = kept.repeat(rows)[:rows, None]
        place = torch.arange(length)
        real = place < kept
        if padding == "left":
            real = real.flip(1)
        mask = real.long()
    ids = ids.masked_fill(~real, SIZES["pad_token_id"])
    predicted_from_real = real & real.roll(1, dims=1)
    predicted_from_real[:, 0] = False
    labels = ids.masked_fill(~predicted_from_real, -100)
    if length > 2:
        labels[0, length // 2] = 0  # a word like any other
    return Batch(ids, mask, labels, real)


# --- ways to call

IGNORED = 96  # a label that a caller says does not count
PREDICTED = 4  # tokens, where not all are
ITEMS = 7  # labels that a caller says are in the batch
AS_TUPLE = "a tuple"
FOUR_AXES, HOLE = "mask of four axes", "mask with a hole"
MORE_OUTPUTS = "all outputs that it has"
WHOLE_ENCODER = "an encoder without padding"  # every query sees all of its states
TWO_STREAMS = "tokens that are predicted in another order"  # XLNet's
FEW = "logits and labels of the last tokens alone"
BESIDE = "masks beside that of the text"  # of images, patches and a decoder's text
LARGER = "images larger than those of the positions"
# The arguments that the forward has to take for a way.
_TAKEN = {
    "types of tokens": "token_type_ids",
    "embeddings": "inputs_embeds",
    "positions": "position_ids",
    "mask of ones": "attention_mask",
    TWO_STREAMS: "target_mapping",
    FEW: "logits_to_keep",
    LARGER: "interpolate_pos_encoding",
}
# The arguments that have to be given for a way, and what is missing where they are not.
_GIVEN = {
    **dict.fromkeys(
        ("mask of floats", "mask of bools", FOUR_AXES, HOLE), ("attention_mask", "padding")
    ),
    **dict.fromkeys(("ignore_index", "shift_labels", FEW), ("labels", "label for each token")),
    "num_items_in_batch": ("labels", "label"),
    WHOLE_ENCODER: ("encoder_attention_mask", "encoder's mask"),
    LARGER: ("pixel_values", "image"),
}
OPTIONS: Mapping[str, dict[str, Any]] = {
    "num_items_in_batch": {"num_items_in_batch": ITEMS},
    AS_TUPLE: {"return_dict": False},
}
# Outputs that other cases ask for.
USUAL = ("output_attentions", "output_hidden_states")
# What stands in the text, and what methods and tokens call it: `inputs.placed` puts it there.
PLACED = {"images": "image", "videos": "video", "sounds": "audio"}
OF_ARGUMENTS = frozenset({*_TAKEN, *_GIVEN, AS_TUPLE, MORE_OUTPUTS, BESIDE, *PLACED})


def apply_argument_styles(
    ways: tuple[str, ...],
    drawn: Inputs,
    model_class: type[PreTrainedModel],
    config: PreTrainedConfig,
) -> Inputs:
    for way in ways:
        if way in _TAKEN and _TAKEN[way] not in takes(model_class):
            raise CannotBuild(f"its forward takes no {_TAKEN[way]}")
        name, missing = _GIVEN.get(way, ("", ""))
        if name and name not in drawn.given:
            raise CannotBuild(f"there is no {missing}")
        if way in OPTIONS:
            drawn = replace(drawn, options={**drawn.options, **OPTIONS[way]})
        elif way == MORE_OUTPUTS:
            asked = [n for n in takes(model_class) if n.startswith("output_") and n not in USUAL]
            if not asked:
                raise CannotBuild("its forward is asked for no further outputs")
            drawn = replace(drawn, options={**drawn.options, **dict.fromkeys(asked, True)})
        elif way == WHOLE_ENCODER:
            del drawn.given[name]
        elif way == BESIDE:
            drawn = _masked(drawn, takes(model_class), config)
        elif way in OF_ARGUMENTS and way not in PLACED:
            drawn = _of_text(way, drawn, config)
    return drawn


def _masked(drawn: Inputs, names: frozenset[str], config: PreTrainedConfig) -> Inputs:
    """Masks of images, of their patches, and of the text that a decoder reads."""
    given = dict(drawn.given)
    real = drawn.real
    answer = given.get("labels", given.get("decoder_input_ids"))
    if "decoder_attention_mask" in names and answer is not None and answer.dim() == 2:
        shown = _shortened(*answer.shape)
        given["decoder_attention_mask"] = shown.long()
        real = (*real[:-1], shown)
    image = given.get("pixel_values")
    patch = getattr(config, "patch_size", None)
    if image is not None and image.dim() == 4:
        rows, _, height, width = image.shape
        if "pixel_mask" in names:
            columns = _shortened(rows, width)[:, None]
            given["pixel_mask"] = columns.expand(-1, height, -1).long()
        if "bool_masked_pos" in names and isinstance(patch, int):
            patches = (height // patch) * (width // patch)
            given["bool_masked_pos"] = ~_shortened(rows, patches)
    if given.keys() == drawn.given.keys():
        raise CannotBuild("its forward takes no other mask")
    return replace(drawn, given=given, real=real)


def _shortened(rows: int, length: int) -> Tensor:
    """(rows, length): each row shows a quarter less than the one before it, the first one all."""
    return torch.arange(length) < length - length // 4 * torch.arange(rows)[:, None]


def _of_text(way: str, drawn: Inputs, config: PreTrainedConfig) -> Inputs:
    given = dict(drawn.given)
    if way == LARGER:  # twice as wide
        image = given["pixel_values"]
        given["pixel_values"] = torch.cat([image, image.flip(-1)], -1)
        options = {**drawn.options, _TAKEN[LARGER]: True}
        return replace(drawn, given=given, options=options)
    if "input_ids" not in given or given["input_ids"].dim() != 2:
        raise CannotBuild("there is no text")
    ids = given["input_ids"]
    rows, length = ids.shape
    place = torch.arange(length)
    new: Tensors = {}
    if way == "types of tokens":  # the rest of each text is of another, in each row from elsewhere
        kinds = getattr(config, "type_vocab_size", SIZES["vocab_size"])
        if kinds < 2:
            raise CannotBuild("it knows no types of tokens")
        moved = (place + torch.arange(rows)[:, None]) * kinds // length
        new["token_type_ids"] = moved.clamp(max=kinds - 1)
    elif way == "embeddings":
        text = config.get_text_config()
        draw = torch.Generator().manual_seed(6)
        width = getattr(text, "embedding_size", None) or text.hidden_size
        states = torch.randn(*ids.shape, width, generator=draw, dtype=torch.float64)
        new["inputs_embeds"] = states
        del given["input_ids"]
    elif way == "positions":
        # As of a long text that is cut into rows: each goes on where the last one ends.
        new["position_ids"] = 2 + torch.arange(ids.numel()).view(ids.shape)
    elif way == FOUR_AXES:  # a token sees itself and earlier real ones, but not the third
        offset = place[:, None] - place
        earlier = (offset > 0) & (offset != 3)
        seen = given["attention_mask"].bool()[:, None, :] & earlier
        hidden = ~(seen | (offset == 0))
        scores = torch.zeros(seen.shape, dtype=torch.float64)
        new["attention_mask"] = scores.masked_fill(hidden, -1e9)[:, None]
    elif way == TWO_STREAMS:  # some tokens, of which each sees earlier ones alone
        later = place[:, None] < place
        predicted = torch.eye(length).double()[-PREDICTED:]
        new["perm_mask"] = later.double().expand(rows, -1, -1)
        new["target_mapping"] = predicted.expand(rows, -1, -1)
        if "labels" in given:
            new["labels"] = given["labels"][:, -PREDICTED:].clone()
    elif way == FEW:
        new["labels"] = given["labels"][:, -PREDICTED:].clone()
        real = (*drawn.real, drawn.real[0][:, -PREDICTED:])
        options = {**drawn.options, "logits_to_keep": PREDICTED}
        drawn = replace(drawn, options=options, real=real)
    elif way == "mask of ones":
        new["attention_mask"] = torch.ones_like(ids)
    elif way == HOLE:  # a token that none sees, and whose output is not looked at
        kept = (place != 2).expand_as(ids)
        drawn = replace(drawn, real=(drawn.real[0] & kept, *drawn.real[1:]))
        new["attention_mask"] = given["attention_mask"] * kept
        if "labels" in given and given["labels"].shape == ids.shape:
            is_at_hole = (place == 2) | (place == 3)
            new["labels"] = given["labels"].masked_fill(is_at_hole, -100)
    elif way.startswith("mask of "):
        dtype = torch.float64 if way == "mask of floats" else torch.bool
        new["attention_mask"] = given["attention_mask"].to(dtype)
    elif given["labels"].shape != ids.shape:
        raise CannotBuild("it has no label for each token")
    elif way == "shift_labels":  # by the caller, as for sequence parallelism; less than the model
        new["shift_labels"] = given["labels"].roll(2, 1)
    else:  # a label that the caller chooses
        labels = given["labels"]
        new["labels"] = labels.masked_fill(labels == -100, IGNORED)
        new["labels"][:, ::4] = IGNORED
        options = {**drawn.options, "ignore_index": IGNORED}
        drawn = replace(drawn, options=options)
    return replace(drawn, given={**given, **new})
