"""What a model gives for some rows, and how far that is from what its parent gives.

What rounding may do is measured: the parent is seen in a wider dtype too, and the distance between
the two is its noise (`verifying.differences`).

Axes: T real tokens of all rows, V words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from patchgen.training.real.found import Layer, Place
from patchgen.verifying.differences import differences, measure_in_noise, nearer
from patchgen.verifying.observe.recorder import compute_in_float64
from patchgen.verifying.observe.step import outputs, takes_cache

WIDE = {torch.float32: torch.float64, torch.bfloat16: torch.float32}
Seen = dict[str, Tensor]  # outputs by path, each (T, ...)
STATES = "hidden_states."
TOKENS = 128  # whose logits are compared at once
PARTS = 8  # of the places of a row


@torch.no_grad()
def see(model: Any, batch: Mapping[str, Tensor]) -> Seen:
    """Return what the model gives for each real token, on the CPU."""
    asked: dict[str, Any] = {"output_hidden_states": True, "return_dict": True}
    if takes_cache(type(model)):
        asked["use_cache"] = False
    model.eval()
    with compute_in_float64() if model.dtype == torch.float64 else nullcontext():
        out = model(**batch, **asked)
    is_real = batch["attention_mask"].bool()
    seen = {}
    for name, tensor in outputs(out):
        if tensor.shape[:2] == is_real.shape:
            seen[name] = tensor[is_real].cpu()
    return seen


def measure(stock: Seen, exact: Seen, seen: Seen) -> dict[str, float]:
    """Return the distance from the parent by outputs, in units of the parent's noise.

    As in `patchgen verify`, what is nearer to the parent in a wider dtype is measured from there.
    """
    noise = differences(exact, stock)
    from_parent = measure_in_noise(differences(stock, seen), noise)
    from_truth = measure_in_noise(differences(exact, seen), noise)
    return {gap.name: gap.largest for gap in nearer(from_parent, from_truth)}


def find_layers(stock: Seen, seen: Seen, noises: Mapping[str, float]) -> list[Layer]:
    """Return the drift of states behind the embeddings and each layer; `noises` is of `measure`."""
    drifts = {gap.name: gap.rms for gap in differences(stock, seen)}
    states = [name for name in stock if name.startswith(STATES)]
    layers = []
    for number, name in enumerate(states):
        behind = f"layer {number - 1}" if number else "the embeddings"
        drift = drifts[name]
        noise = noises[name]
        layers.append(Layer(behind, drift, noise))
    return layers


def find_places(parent: Tensor, ours: Tensor, positions: Tensor) -> list[Place]:
    """Return how far logits are apart in each part of the rows; `positions` has the place of each.

    All are (T, ...).
    """
    chunks = map(_apart, parent.split(TOKENS), ours.split(TOKENS))
    apart = torch.cat(list(chunks), dim=1)
    length = int(positions.max()) + 1
    size = math.ceil(length / PARTS)
    places = []
    for begin in range(0, length, size):
        is_here = positions // size == begin // size
        divergences, largest = apart[:, is_here]
        name = f"{begin} to {begin + size - 1}"
        mean = float(divergences.mean())
        worst = float(largest.max())
        places.append(Place(name, mean, worst))
    return places


def _apart(parent: Tensor, ours: Tensor) -> Tensor:
    """Return divergences and the largest differences of tokens, (2, T)."""
    parent = parent.double()
    ours = ours.double()
    theirs = parent.log_softmax(-1)
    own = ours.log_softmax(-1)
    divergences = (theirs.exp() * (theirs - own)).sum(-1)
    largest = (parent - ours).abs().amax(-1)
    return torch.stack([divergences, largest])
