"""Make dummy inputs for one class of a model: text, images, time series or audio.

From the class and its tiny configuration come the arguments of the forward, and which of the tokens
are real.  Text and labels are made here, the rest in `vision` and `audio`.  If nothing fits,
`CannotBuild` is raised.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from patchgen.facts.sizes import SIZES
from patchgen.verify.inputs.arguments import (
    ANSWER,
    BOUNDARY,
    LENGTH,
    ROWS,
    CannotBuild,
    Inputs,
    takes,
)
from patchgen.verify.inputs.audio import by_optimum, series
from patchgen.verify.inputs.batch import FIRST_WORD, Batch, batch
from patchgen.verify.inputs.calls import apply_argument_styles
from patchgen.verify.inputs.vision import image_inputs, images, patch_inputs
from patchgen.verify.parts.part_check import Scenario

ONE_ROW = ("tvp",)  # their forward is right for one row only
# The lengths of the texts in each row.
PACKED = {"packed": ((BOUNDARY, LENGTH - BOUNDARY),), "several": ((LENGTH,), (1, 5, 7), (4, 9))}
# What is wanted of a text is then no class.
FLOATING = ("regression", "multi_label_classification")
MEMORY = 7  # tokens of an encoder whose states are given


def make_inputs(
    model_class: type[PreTrainedModel], config: PreTrainedConfig, scenario: Scenario, seed: int = 0
) -> Inputs:
    """The inputs of `model_class` in `scenario`, on the CPU.  Raises CannotBuild."""
    made = apply_argument_styles(
        scenario.ways, _inputs(model_class, config, scenario, seed), model_class, config
    )
    return made.rows(1, 2) if config.model_type in ONE_ROW else made


def _inputs(
    model_class: type[PreTrainedModel], config: PreTrainedConfig, scenario: Scenario, seed: int
) -> Inputs:
    names = takes(model_class)
    if "input_ids" in names:
        made = _text(model_class, config, scenario, seed)
    elif scenario.rows != "full":
        raise CannotBuild("there is no text to pad")
    elif "grid_thw" in names:
        made = patch_inputs(names, config, seed)
    elif "pixel_values" in names or "pixel_values_videos" in names:
        made = image_inputs(model_class, config, seed)
    elif "past_values" in names:
        made = series(names, config, seed, labels=scenario.labels)
    else:
        made = by_optimum(names, config, labels=scenario.labels)
    if "MultipleChoice" in model_class.__name__:
        return _choices(made)
    if scenario.labels and not _refuses_labels(model_class):
        made.given.update(_targets(model_class, made, config, seed))
    else:
        made.given.pop("labels", None)
    return made


def _refuses_labels(model_class: type[PreTrainedModel]) -> bool:
    """Whether the forward refuses labels because it was not made for training."""
    return _raises_at_labels(inspect.unwrap(model_class.forward))


@functools.cache
def _raises_at_labels(function: Callable[..., Any]) -> bool:
    [forward] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    return any(
        isinstance(node, ast.If)
        and ast.unparse(node.test) == "labels is not None"
        and isinstance(node.body[0], ast.Raise)
        for node in ast.walk(forward)
    )


def _text(
    model_class: type[PreTrainedModel], config: PreTrainedConfig, scenario: Scenario, seed: int
) -> Inputs:
    names = takes(model_class)
    padding: Any = scenario.rows if scenario.rows in ("right", "left", "short") else "none"
    text = batch(padding, rows=ROWS, length=scenario.length or LENGTH, seed=seed)
    given, real = (
        {"input_ids": _ended(text, config) if _is_pooled(model_class, config) else text.input_ids},
        [text.real],
    )
    if _has_places(config) and "pixel_values" in names:
        given = {"input_ids": _with_places(text, config), **images(config, seed).given}
    if text.attention_mask is not None:
        if "attention_mask" not in names:
            raise CannotBuild("its forward takes no attention_mask")
        given["attention_mask"] = text.attention_mask
    if scenario.rows in PACKED:
        if "position_ids" not in names:
            raise CannotBuild("its forward takes no position_ids, which tell packed texts apart")
        texts = PACKED[scenario.rows]
        starts = [[place for length in row for place in range(length)] for row in texts]
        given["position_ids"] = torch.tensor([starts[row % len(starts)] for row in range(ROWS)])
    if config.is_encoder_decoder and "decoder_input_ids" in names:
        answer = batch("none", rows=ROWS, length=ANSWER, seed=seed + 1)
        real.append(answer.real)
        if "labels" in names and scenario.labels:
            given["labels"] = answer.input_ids
        else:
            given["decoder_input_ids"] = answer.input_ids
    elif "labels" in names and scenario.labels and config.model_type not in ONE_ROW:
        given["labels"] = text.labels
        if (places := given.get("position_ids")) is not None:  # as collators of packed texts do
            given["labels"] = text.labels.masked_fill(places == 0, -100)
    if "codebook_idx" in names:  # Bark's tokens have a code in each of its books
        given["codebook_idx"] = torch.tensor(config.n_codes_total - 1)
        given["input_ids"] = torch.stack(
            [text.input_ids.roll(n, 1) for n in range(config.n_codes_total)], -1
        )
    if "bbox" in names:
        given["bbox"] = _boxes(seed)
    if "visual_feats" in names:
        given.update(_regions(config, seed))
    elif _wants_image(model_class, config):
        given.update(images(config, seed).given)
    if getattr(config, "add_cross_attention", False) and "encoder_hidden_states" in names:
        given.update(_memory(config, seed))
    return Inputs(given, tuple(real))


def _is_pooled(model_class: type[PreTrainedModel], config: PreTrainedConfig) -> bool:
    """Whether a text becomes one vector, which most decoders read at its last token."""
    classified = config.is_encoder_decoder and "SequenceClassification" in model_class.__name__
    return classified or hasattr(model_class, "get_text_features")


def _ended(text: Batch, config: PreTrainedConfig) -> Tensor:
    """Each row's tokens, the last real one of which ends it."""
    end = getattr(getattr(config, "text_config", config), "eos_token_id", None)
    ids = text.input_ids.clone()
    for row, real in zip(ids, text.real, strict=True):
        row[real.nonzero()[-1]] = end if isinstance(end, int) else SIZES["eos_token_id"]
    return ids


def _has_places(config: PreTrainedConfig) -> bool:
    """Whether the tokens that an image stands at are in the tiny vocabulary."""
    place = getattr(
        config, "image_token_id", None
    )  # None where the processor puts images into the text
    return place is not None and place < SIZES["vocab_size"] and hasattr(config, "image_seq_length")


def _with_places(text: Batch, config: PreTrainedConfig) -> Tensor:
    """Each row's tokens with those of an image among the real ones, and nowhere else."""
    ids = text.input_ids.masked_fill(text.input_ids == config.image_token_id, FIRST_WORD)
    for row, real in zip(ids, text.real, strict=True):
        row[real.nonzero()[-config.image_seq_length - 1 : -1, 0]] = config.image_token_id
    return ids


def _wants_image(model_class: type[PreTrainedModel], config: PreTrainedConfig) -> bool:
    """Whether an image stands beside the text, and not at a token of its own in it."""
    pixels = inspect.signature(model_class.forward).parameters.get("pixel_values")
    if pixels is None or any(
        hasattr(config, name) for name in ("image_token_id", "image_token_index")
    ):
        return False
    # SAM 3 takes an image, or what its vision model makes of it.
    if "vision_embeds" in takes(model_class):
        return True
    both = hasattr(model_class, "get_image_features") or config.model_type in (
        "vilt",
        "bridgetower",
        "tvp",
    )
    return both or pixels.default is inspect.Parameter.empty


def _boxes(seed: int) -> Tensor:
    """Where each token stands on its page: left, top, right, bottom, the latter two not less."""
    draw = torch.Generator().manual_seed(seed + 4)
    corners = torch.randint(0, 16, (ROWS, LENGTH, 2), generator=draw)
    return torch.cat(
        [corners, corners + torch.randint(1, 16, (ROWS, LENGTH, 2), generator=draw)], -1
    )


def _regions(config: PreTrainedConfig, seed: int) -> dict[str, Tensor]:
    """Features of parts of an image, and where these are (LXMERT)."""
    draw = torch.Generator().manual_seed(seed + 5)
    sizes = {"visual_feats": config.visual_feat_dim, "visual_pos": 4}
    return {
        n: torch.randn(ROWS, MEMORY, s, generator=draw, dtype=torch.float64)
        for n, s in sizes.items()
    }


def _memory(config: PreTrainedConfig, seed: int) -> dict[str, Tensor]:
    """An encoder's states, some of which are padding."""
    draw = torch.Generator().manual_seed(seed + 2)
    mask = torch.ones(ROWS, MEMORY, dtype=torch.long)
    mask[1, -2:] = 0
    states = torch.randn(ROWS, MEMORY, config.hidden_size, generator=draw, dtype=torch.float64)
    return {"encoder_hidden_states": states, "encoder_attention_mask": mask}


def _targets(
    model_class: type[PreTrainedModel], made: Inputs, config: PreTrainedConfig, seed: int
) -> Iterator[tuple[str, Tensor]]:
    """What is wanted of a class that is no language model."""
    names, draw = takes(model_class), torch.Generator().manual_seed(seed + 3)
    name = model_class.__name__
    if "start_positions" in names:
        for target in ("start_positions", "end_positions"):
            yield target, torch.randint(0, LENGTH - 6, (ROWS,), generator=draw)
    if "next_sentence_label" in names:
        yield "next_sentence_label", torch.randint(0, 2, (ROWS,), generator=draw)
    if "duration_labels" in names:
        yield from _speech(config, draw)
    if "labels" not in names:
        return
    if any(
        kind in name
        for kind in ("SequenceClassification", "ImageClassification", "NextSentence", "AudioClass")
    ):
        if config.problem_type in FLOATING:
            shape = (ROWS, config.num_labels) if config.num_labels > 1 else (ROWS,)
            wanted = torch.rand(shape, generator=draw, dtype=torch.float64)
            yield "labels", wanted.round() if config.num_labels > 1 else wanted
        else:
            yield "labels", torch.randint(0, max(config.num_labels, 2), (ROWS,), generator=draw)
    elif "TokenClassification" in name:
        classes = torch.randint(0, max(config.num_labels, 2), (ROWS, LENGTH), generator=draw)
        yield "labels", classes.masked_fill(~made.real[0], -100)
    elif "ForPreTraining" in name and "Electra" in name:
        yield "labels", torch.randint(0, 2, (ROWS, LENGTH), generator=draw)


def _speech(config: PreTrainedConfig, draw: torch.Generator) -> Iterator[tuple[str, Tensor]]:
    """What each token is to sound like, and for how many frames."""
    durations = 1 + torch.arange(LENGTH) % 2
    yield "duration_labels", durations.repeat(ROWS, 1)
    frames = int(durations.sum())
    yield (
        "spectrogram_labels",
        torch.randn(ROWS, frames, config.num_mel_bins, generator=draw, dtype=torch.float64),
    )
    for name in ("pitch_labels", "energy_labels"):
        yield name, torch.randn(ROWS, LENGTH, 1, generator=draw, dtype=torch.float64)


def _choices(made: Inputs) -> Inputs:
    """Two texts a row, of which one is right."""
    text = {
        name: torch.stack([t, t.flip(0)], 1)
        for name, t in made.given.items()
        if name in ("input_ids", "attention_mask")
    }
    real = tuple(
        torch.stack([mask, mask.flip(0)], 1).flatten(0, 1) for mask in made.real
    )  # a choice is a row inside
    return Inputs({**text, "labels": torch.zeros(ROWS, dtype=torch.long)}, real)
