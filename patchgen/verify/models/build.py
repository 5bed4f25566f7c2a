"""Build a tiny parent with weights that show errors, and the variant from its checkpoint."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.utils import logging

from patchgen.verify.inputs.arguments import LARGEST, CannotBuild
from patchgen.verify.models.weights import draw_weights
from patchgen.verify.parts.part_check import Build, Route, load_strictly


def build_parent(
    parent_class: type[PreTrainedModel],
    config: PreTrainedConfig,
    dtype: torch.dtype,
    seed: int = 0,
) -> PreTrainedModel:
    """The parent with weights that show errors, on the CPU.  Raises CannotBuild."""
    try:
        with torch.device("meta"):
            size = sum(parameter.numel() for parameter in parent_class(config).parameters())
    except (TypeError, ValueError, AttributeError, KeyError, NotImplementedError) as error:
        what = f"{type(error).__name__}: {error}"
        raise CannotBuild(
            f"{parent_class.__name__} does not take a tiny configuration: {what}"
        ) from error
    if size > LARGEST:
        raise CannotBuild(f"has {size:,} parameters at its tiniest, more than {LARGEST:,}")
    model = parent_class(config).to(dtype).eval()
    draw_weights(model, seed)
    return model


def build_both(
    master: PreTrainedModel, variant_class: type[PreTrainedModel], build: Build, route: Route
) -> tuple[PreTrainedModel, PreTrainedModel]:
    """Parent and variant from the checkpoint of `master`, along `route`, in eval mode."""
    more = _in_float64(master, variant_class)
    with tempfile.TemporaryDirectory() as folder, silence_progress():
        saved, place = Path(folder, "parent"), Path(folder, "variant")
        master.save_pretrained(saved)
        parent = load_strictly(type(master), saved, dtype=master.dtype, **{**route.parent, **more})
        place.mkdir()
        variant = build(master, variant_class, place, {**route.variant, **more})
    return parent.eval(), variant.eval()


def build_variant(
    master: PreTrainedModel, variant_class: type[PreTrainedModel], build: Build, route: Route
) -> PreTrainedModel:
    """The variant alone, as `build_both` makes it."""
    with tempfile.TemporaryDirectory() as folder, silence_progress():
        settings = {**route.variant, **_in_float64(master, variant_class)}
        return build(master, variant_class, Path(folder), settings).eval()


def _in_float64(master: PreTrainedModel, variant_class: type[PreTrainedModel]) -> dict[str, Any]:
    # Grouped matmul has no float64: both sides loop over experts.
    can_set = any(each._can_set_experts_implementation() for each in (type(master), variant_class))
    loop = master.dtype == torch.float64 and can_set
    return {"experts_implementation": "eager"} if loop else {}


@contextmanager
def silence_progress() -> Iterator[None]:
    """No bars of transformers for checkpoints of a hundred kilobytes."""
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()
