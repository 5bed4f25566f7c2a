"""Sounds: forms of features and of waves, of which a model is given the first that it takes.

(rows, bins, frames)   Whisper, whose encoder has as many frames as positions
(rows, frames, bins)   Parakeet
(rows, samples)        Wav2Vec2
(rows, 1, samples)     Encodec
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedConfig

FRAMES = 24
SAMPLES = 4000
INPUTS = ("input_features", "input_values", "hidden_states")  # a tower may call them so
BINS = (
    "num_mel_bins",
    "input_feat_per_channel",
    "input_feat_size",
    "feature_projection_input_dim",
    "feature_size",
    "n_mels",
    "mel_bins",
    "input_dim",
)
# Masks of frames or samples; that of a text has the last name too.
MASKS = (
    "input_features_mask",
    "feature_attention_mask",
    "input_values_mask",
    "padding_mask",
    "attention_mask",
)
PARTS = ("audio_config", "encoder_config", "audio_encoder", "encoder")


def sound_forms(
    names: frozenset[str], config: PreTrainedConfig, rows: int, *, padded: bool, seed: int = 0
) -> Iterator[dict[str, Tensor]]:
    """Arguments for a forward of `names`; the second sound and the third are padded, if asked."""
    first = next((name for name in INPUTS if name in names), None)
    if first is None:
        return
    masks = [name for name in MASKS if name in names]
    if "input_ids" in names and "attention_mask" in masks:
        masks.remove("attention_mask")
    if not padded and "attention_mask" in masks:
        masks.remove("attention_mask")
    draw = torch.Generator().manual_seed(seed)
    for shape, axis in _shapes(first, config):
        sound = torch.randn(rows, *shape, generator=draw, dtype=torch.float64)
        real = torch.ones(rows, shape[axis], dtype=torch.long)
        if padded:
            for row in range(1, rows):
                real[row, -(shape[axis] * min(row, 2) // 4) :] = 0
        yield {first: sound, **dict.fromkeys(masks, real)}


def _shapes(first: str, config: PreTrainedConfig) -> Iterator[tuple[tuple[int, ...], int]]:
    """What a sound may be, without its row, and which axis is time."""
    owners = [getattr(config, name, None) for name in PARTS]
    owner = next((each for each in owners if isinstance(each, PreTrainedConfig)), config)
    bins = _first_of((owner, config), BINS)
    fixed = _first_of((owner,), ("max_source_positions", "n_window"))
    waves = [((SAMPLES,), 0), ((1, SAMPLES), 1)]
    if first == "input_values":
        yield from waves
    if bins:
        if fixed:
            yield (bins, 2 * fixed), 1
        lengths = (_first_of((config,), ("max_length", "spec_size")), FRAMES, 4 * FRAMES)
        for frames in filter(None, lengths):
            yield (frames, bins), 0
            yield (bins, frames), 1
            yield (1, frames, bins), 1
    if first == "input_features":
        yield from waves


def _first_of(owners: Sequence[PreTrainedConfig], names: Sequence[str]) -> int | None:
    values = (getattr(owner, name, None) for owner in owners for name in names)
    return next((each for each in values if isinstance(each, int) and each), None)
