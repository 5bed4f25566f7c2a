"""Inputs for time series and audio, by the names of the forward's arguments.

optimum's generators make the others.  What these do not know either is a `CannotBuild`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from patchgen.verify.inputs.arguments import ANSWER, ROWS, CannotBuild, Inputs
from patchgen.verify.inputs.batch import batch

FRAMES = 24  # of speech, as features
SAMPLES = 4000  # of sound, as a wave


def series(names: frozenset[str], config: PreTrainedConfig, seed: int, *, labels: bool) -> Inputs:
    """What was measured, and what came after it."""
    draw = torch.Generator().manual_seed(seed)
    lengths = {"past": config.context_length + max(getattr(config, "lags_sequence", [0]))}
    # Where a decoder goes on from them, it reads them too.
    if "future_values" in names and (labels or config.is_encoder_decoder):
        after = [getattr(config, name, None) for name in ("prediction_length", "horizon_length")]
        lengths["future"] = next(length for length in after if length)
    given: dict[str, Tensor] = {}
    for time, length in lengths.items():
        widths = [n for n in (getattr(config, "num_input_channels", 1),) if n > 1]
        given[f"{time}_values"] = torch.randn(
            ROWS, length, *widths, generator=draw, dtype=torch.float64
        )
        if f"{time}_time_features" in names:
            shape = (ROWS, length, config.num_time_features)
            given[f"{time}_time_features"] = torch.randn(shape, generator=draw, dtype=torch.float64)
    if "past_observed_mask" in names and "past_time_features" in names:
        given["past_observed_mask"] = torch.ones_like(given["past_values"])
    return Inputs(given)


def by_optimum(names: frozenset[str], config: PreTrainedConfig, *, labels: bool) -> Inputs:
    """The first input of another kind, as optimum makes it."""
    first = next((name for name in ("input_features", "input_values") if name in names), None)
    draw = torch.Generator().manual_seed(0)
    if first == "input_features" and hasattr(config, "input_feat_per_channel"):
        size = config.input_feat_per_channel
        heard = Inputs(
            {first: torch.randn(ROWS, FRAMES, size, generator=draw, dtype=torch.float64)}
        )
        return _answered(heard, names, labels=labels)
    if first == "input_values" and (hasattr(config, "conv_stride") or config.is_encoder_decoder):
        heard = Inputs({first: torch.randn(ROWS, SAMPLES, generator=draw, dtype=torch.float64)})
        return _answered(heard, names, labels=labels) if "decoder_input_ids" in names else heard
    if first == "input_features" and config.model_type.endswith(("_encoder", "_audio")):
        if hasattr(config, "num_mel_bins"):
            return Inputs(_spectra(names, config, draw))
    if "hidden_states" in names and hasattr(config, "input_dim"):  # a tower that calls them so
        shape = (ROWS, FRAMES, config.input_dim)
        return Inputs({"hidden_states": torch.randn(shape, generator=draw, dtype=torch.float64)})
    if first is None:
        raise CannotBuild(
            f"no inputs are known for a forward of {', '.join(sorted(names - {'self'}))}"
        )
    make = _audio_generator(config)
    torch.manual_seed(0)
    return Inputs({first: make(first).double()})


def _spectra(
    names: frozenset[str], config: PreTrainedConfig, draw: torch.Generator
) -> dict[str, Tensor]:
    """For the encoder of sound in a larger model; a convolution halves the frames."""
    frames = 2 * getattr(config, "max_source_positions", getattr(config, "n_window", FRAMES))
    shape = (ROWS, config.num_mel_bins, frames)
    given = {"input_features": torch.randn(shape, generator=draw, dtype=torch.float64)}
    if "input_features_mask" in names:
        given["input_features_mask"] = torch.ones(ROWS, frames, dtype=torch.long)
    return given


def _answered(made: Inputs, names: frozenset[str], *, labels: bool) -> Inputs:
    """With what a decoder says to it."""
    answer = batch("none", rows=ROWS, length=ANSWER, seed=1)
    name = "labels" if labels and "labels" in names else "decoder_input_ids"
    return Inputs({**made.given, name: answer.input_ids}, (answer.real,))


def _audio_generator(config: PreTrainedConfig) -> Callable[[str], Tensor]:
    try:
        from optimum.utils import DummyAudioInputGenerator, NormalizedConfigManager
    except ImportError:
        raise CannotBuild("needs optimum, which makes inputs of this kind") from None
    try:
        normal = NormalizedConfigManager.get_normalized_config_class(config.model_type)(config)
    except KeyError as error:
        raise CannotBuild(f"optimum does not know {config.model_type}") from error
    made = DummyAudioInputGenerator("audio-classification", normal, batch_size=ROWS)
    return lambda name: made.generate(name, framework="pt")
