"""Make dummy inputs for one class of a model: text, images, speech, time series."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from patchgen.facts.sizes import SIZES
from patchgen.verifying.inputs.arguments import (
    ANSWER,
    BOUNDARY,
    LENGTH,
    PLACED,
    ROWS,
    Batch,
    CannotBuild,
    Inputs,
    Tensors,
    apply_argument_styles,
    batch,
    takes,
)
from patchgen.verifying.inputs.images import SEEN_BY, images, seen_by_words
from patchgen.verifying.inputs.placed import (
    draw_normal,
    first_that_runs,
    given_with,
    has_images,
    place_all,
)
from patchgen.verifying.inputs.sounds import sound_forms
from patchgen.verifying.parts.part_check import Scenario

# The lengths of the texts in each row.
PACKED = {
    "packed": ((BOUNDARY, LENGTH - BOUNDARY),),
    "several": ((LENGTH,), (1, 2, 3, 7), (2, 1, 1, 9)),
}
# Classes that choose one of several for each row.
CHOOSING = ("SequenceClassification", "ImageClassification", "NextSentence", "AudioClass")
ONE_ROW = ("tvp",)  # their forward is right for one row only, and takes labels of its own
MEMORY = 7  # tokens of an encoder whose states are given
ONE_LENGTH = ("megatron-bert",)  # whose cross-attention takes as many of them as there are tokens


def make_inputs(
    model_class: type[PreTrainedModel], config: PreTrainedConfig, scenario: Scenario, seed: int = 0
) -> Inputs:
    drawn = _made(model_class, config, scenario, seed)
    if "MultipleChoice" in model_class.__name__:
        drawn = _choices(drawn)
    elif scenario.labels and not _raises_at_labels(inspect.unwrap(model_class.forward)):
        drawn.given.update(_targets(model_class, drawn, config, seed))
    else:
        drawn.given.pop("labels", None)
    drawn = apply_argument_styles(scenario.ways, drawn, model_class, config)
    return drawn.rows(1, 2) if config.model_type in ONE_ROW else drawn


def _made(
    model_class: type[PreTrainedModel], config: PreTrainedConfig, scenario: Scenario, seed: int
) -> Inputs:
    names = takes(model_class)
    if "input_ids" in names:
        return _text(model_class, config, scenario, seed)
    is_sound = bool(names & {"input_features", "input_values"})
    if scenario.rows != "full" and not (is_sound and scenario.rows == "right"):
        raise CannotBuild("there is no text to pad")
    if {"grid_thw", "pixel_values", "pixel_values_videos"} & names:
        given = images(model_class, config, seed)
        given.update(_texts_beside(names, seed + 7))
        if "pixel_values_videos" in names and "pixel_values" not in names:
            frames = given["pixel_values"]
            given = {"pixel_values_videos": torch.stack([frames, frames.flip(-1)], 1)}
        return Inputs(given)
    if "past_values" in names:
        return _series(names, config, seed, labels=scenario.labels)
    return _speech(model_class, config, scenario, seed)


def _texts_beside(names: frozenset[str], seed: int) -> Iterator[tuple[str, Tensor]]:
    """The task of each image, and the names of two classes for it (OmDet-Turbo)."""
    if "classes_structure" not in names:
        return
    for kind, several in (("tasks", 1), ("classes", 2)):
        text = batch(rows=ROWS * several, seed=seed + several)
        yield f"{kind}_input_ids", text.input_ids
        yield f"{kind}_attention_mask", text.real.long()
        if several > 1:
            yield "classes_structure", torch.full((ROWS,), several)


@functools.cache
def _raises_at_labels(function: Callable[..., Any]) -> bool:
    """Whether a forward refuses labels because it was not made for training."""
    [forward] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    return any(
        isinstance(node, ast.If)
        and ast.unparse(node.test) == "labels is not None"
        and isinstance(node.body[0], ast.Raise)
        for node in ast.walk(forward)
    )


# --- text


def _text(
    model_class: type[PreTrainedModel], config: PreTrainedConfig, scenario: Scenario, seed: int
) -> Inputs:
    names = takes(model_class)
    padding: Any = scenario.rows if scenario.rows in ("right", "left", "short") else "none"
    placed = place_all(_kinds_in(model_class, config, scenario), model_class, config, seed + 8)
    length = (scenario.length or LENGTH) + placed.length
    text = batch(padding, rows=ROWS, length=length, seed=seed)
    real = [text.real]
    # A text that becomes one vector, which most decoders read at its last token.
    is_pooled = config.is_encoder_decoder and "SequenceClassification" in model_class.__name__
    is_pooled = is_pooled or hasattr(model_class, "get_text_features")
    if is_pooled:
        text = replace(text, input_ids=_ended(text, config))
    pad = getattr(config, "pad_token_id", None)
    if isinstance(pad, int) and pad:
        text = replace(text, input_ids=text.input_ids.masked_fill(~text.real, pad))
    given = {"input_ids": text.input_ids}
    if config.sub_configs:
        given |= given_with(text, placed, model_class, config)
    if text.attention_mask is not None:
        if "attention_mask" not in names:
            raise CannotBuild("its forward takes no attention_mask")
        given["attention_mask"] = text.attention_mask
    if scenario.rows in PACKED:
        if "position_ids" not in names:
            raise CannotBuild("its forward takes no position_ids, which tell packed texts apart")
        starts = []
        for texts in PACKED[scenario.rows]:
            starts.append([*itertools.chain.from_iterable(map(range, texts))])
        positions = [starts[row % len(starts)] for row in range(ROWS)]
        given["position_ids"] = torch.tensor(positions)
    if config.is_encoder_decoder and "decoder_input_ids" in names:
        answer = batch("none", rows=ROWS, length=ANSWER, seed=seed + 1)
        real.append(answer.real)
        is_label = "labels" in names and scenario.labels
        given["labels" if is_label else "decoder_input_ids"] = answer.input_ids
    elif "labels" in names and scenario.labels and config.model_type not in ONE_ROW:
        given["labels"] = text.labels
        # A head that predicts the next token ignores that of the first.
        given["labels"][0, 0] = text.input_ids[0, 0] if text.real[0, 0] else -100
        if "position_ids" in given:  # as collators of packed texts do
            is_first = given["position_ids"] == 0
            given["labels"] = text.labels.masked_fill(is_first, -100)
    if "mc_token_ids" in names:  # of choices: the last token but one
        places = text.real * torch.arange(text.real.shape[1])
        place = places.argmax(1)
        given["mc_token_ids"] = (place - 1).clamp(min=0)
    if "codebook_idx" in names:  # Bark's tokens have a code in each of its books
        books = config.n_codes_total
        codes = [text.input_ids.roll(book, 1) for book in range(books)]
        given["codebook_idx"] = torch.tensor(books - 1)
        given["input_ids"] = torch.stack(codes, -1)
    if "bbox" in names:  # on its page: left, top, right, bottom, the latter two not less
        draw = torch.Generator().manual_seed(seed + 4)
        corner, size = torch.randint(1, 16, (2, ROWS, LENGTH, 2), generator=draw)
        given["bbox"] = torch.cat([corner, corner + size], -1)
    if "visual_feats" in names:  # of parts of an image, and where these are (LXMERT)
        given["visual_feats"] = draw_normal(seed + 5, ROWS, MEMORY, config.visual_feat_dim)
        given["visual_pos"] = draw_normal(seed + 6, ROWS, MEMORY, 4)
    elif _wants_image(model_class, config):
        given.update(images(model_class, config, seed))
        given.update(seen_by_words(names, given, config))
    if getattr(config, "add_cross_attention", False) and "encoder_hidden_states" in names:
        memory = text.real.shape[1] if config.model_type in ONE_LENGTH else MEMORY
        given["encoder_hidden_states"] = draw_normal(seed + 2, ROWS, memory, config.hidden_size)
        given["encoder_attention_mask"] = torch.ones(ROWS, memory, dtype=torch.long)
        given["encoder_attention_mask"][1, -2:] = 0  # padding
    return Inputs(given, tuple(real))


def _ended(text: Batch, config: PreTrainedConfig) -> Tensor:
    end = getattr(getattr(config, "text_config", config), "eos_token_id", None)
    ids = text.input_ids.clone()
    for row, real in zip(ids, text.real, strict=True):
        row[real.nonzero()[-1]] = end if isinstance(end, int) else SIZES["eos_token_id"]
    return ids


def _kinds_in(
    model_class: type[PreTrainedModel], config: PreTrainedConfig, scenario: Scenario
) -> tuple[str, ...]:
    """What the text has places for: what is asked for, and images without which none runs."""
    asked = tuple(way for way in scenario.ways if way in PLACED)
    pixels = inspect.signature(model_class.forward).parameters.get("pixel_values")
    is_needed = pixels is not None and pixels.default is inspect.Parameter.empty
    if not asked and is_needed and has_images(model_class, config):
        return ("images",)
    return asked


def _wants_image(model_class: type[PreTrainedModel], config: PreTrainedConfig) -> bool:
    """Whether an image stands beside the text, and not at a token of its own in it."""
    pixels = inspect.signature(model_class.forward).parameters.get("pixel_values")
    if pixels is None:
        return False
    if any(name in takes(model_class) for name in SEEN_BY):
        return True
    if hasattr(config, "image_token_id") or hasattr(config, "image_token_index"):
        return False
    both = hasattr(model_class, "get_image_features")
    both = both or config.model_type in ("vilt", "bridgetower", "tvp", "pp_formulanet")
    both = both or "vision_embeds" in takes(model_class)  # SAM 3: an image, or what is made of it
    return both or pixels.default is inspect.Parameter.empty


def _targets(
    model_class: type[PreTrainedModel], drawn: Inputs, config: PreTrainedConfig, seed: int
) -> Iterator[tuple[str, Tensor]]:
    names = takes(model_class)
    name = model_class.__name__
    draw = torch.Generator().manual_seed(seed + 3)
    if "start_positions" in names:
        last = next(iter(drawn.given.values())).shape[1] - 1  # an answer there, and one behind it
        for target, places in (("start_positions", (last, 2, 5)), ("end_positions", (last, 4, 99))):
            yield target, torch.tensor(places)[:ROWS]
    if "next_sentence_label" in names:
        yield "next_sentence_label", torch.randint(0, 2, (ROWS,), generator=draw)
    if "labels" not in names:
        return
    classes = max(config.num_labels, 2)
    if any(kind in name for kind in CHOOSING):
        if config.problem_type in ("regression", "multi_label_classification"):
            shape = (ROWS, config.num_labels) if config.num_labels > 1 else (ROWS,)
            wanted = torch.rand(shape, generator=draw, dtype=torch.float64)
            yield "labels", wanted.round() if config.num_labels > 1 else wanted
        else:
            yield "labels", torch.randint(0, classes, (ROWS,), generator=draw)
    elif "TokenClassification" in name:
        chosen = torch.randint(0, classes, (ROWS, LENGTH), generator=draw)
        yield "labels", chosen.masked_fill(~drawn.real[0], -100)
    elif "ForPreTraining" in name and "Electra" in name:
        yield "labels", torch.randint(0, 2, (ROWS, LENGTH), generator=draw)


def _choices(drawn: Inputs) -> Inputs:
    """Two texts a row, of which one is right.  A choice is a row inside."""
    text = {
        name: torch.stack([tensor, tensor.flip(0)], 1)
        for name, tensor in drawn.given.items()
        if name in ("input_ids", "attention_mask")
    }
    real = tuple(torch.stack([mask, mask.flip(0)], 1).flatten(0, 1) for mask in drawn.real)
    return Inputs({**text, "labels": torch.zeros(ROWS, dtype=torch.long)}, real)


# --- speech and time series


def _speech(
    model_class: type[PreTrainedModel], config: PreTrainedConfig, scenario: Scenario, seed: int
) -> Inputs:
    """Features or a wave of sound, and what a decoder says to it."""
    names = takes(model_class)
    padded = scenario.rows == "right"
    labels = scenario.labels
    key = model_class, config.to_json_string(), padded, labels, seed
    if key not in _heard:
        sounds = sound_forms(names, config, ROWS, padded=padded, seed=seed)
        forms = _answered(sounds, names, labels=labels)
        _heard[key] = first_that_runs(model_class, config, forms)
    heard = _heard[key]
    given = {name: tensor.clone() for name, tensor in heard.items()}
    masks = [tensor for name, tensor in given.items() if "mask" in name]
    if padded and all(mask.bool().all() for mask in masks):
        raise CannotBuild("its forward takes no mask of a sound")
    answers = [given[name] for name in ("labels", "decoder_input_ids") if name in given]
    real = [torch.ones_like(answer, dtype=torch.bool) for answer in answers]
    return Inputs(given, tuple(real))


_heard: dict[Any, Tensors] = {}


def _answered(
    sounds: Iterator[Tensors], names: frozenset[str], *, labels: bool
) -> Iterator[Tensors]:
    """Each of `sounds` with the text of a decoder, where the forward takes one."""
    answer = batch("none", rows=ROWS, length=ANSWER, seed=1).input_ids
    for given in sounds:
        if "decoder_input_ids" not in names:
            yield given
            continue
        if labels and "labels" in names:
            yield {**given, "labels": answer}
        yield {**given, "decoder_input_ids": answer}


def _series(names: frozenset[str], config: PreTrainedConfig, seed: int, *, labels: bool) -> Inputs:
    lags = getattr(config, "lags_sequence", [0])
    lengths = {"past": config.context_length + max(lags)}
    # Where a decoder goes on from them, it reads them too.
    is_read = labels or config.is_encoder_decoder
    if is_read and "future_values" in names:
        after = [getattr(config, name, None) for name in ("prediction_length", "horizon_length")]
        lengths["future"] = next(length for length in after if length)
    channels = getattr(config, "num_input_channels", 1)
    shape = (channels,) if channels > 1 else ()
    given: Tensors = {}
    for draw, (time, length) in enumerate(lengths.items(), seed):
        given[f"{time}_values"] = draw_normal(draw, ROWS, length, *shape)
        features = f"{time}_time_features"
        if features in names:
            number = config.num_time_features
            given[features] = draw_normal(draw + 2, ROWS, length, number)
    if names >= {"past_observed_mask", "past_time_features"}:
        given["past_observed_mask"] = torch.ones_like(given["past_values"])
    return Inputs(given)
