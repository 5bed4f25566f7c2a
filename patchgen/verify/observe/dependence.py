"""Measure which tokens of a text a model's outputs depend on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from patchgen.verify.inputs.arguments import BOUNDARY, Inputs
from patchgen.verify.observe.step import outputs, takes_cache


def is_causal(model: PreTrainedModel, full: Inputs) -> bool:
    """Whether no output depends on a later token of the text."""
    return _is_independent(model, full, changed=-1, looked_at=slice(0, -1))


def isolates_packed_texts(model: PreTrainedModel, packed: Inputs) -> bool:
    """Whether the second of two texts in a row does not see the first."""
    return _is_independent(model, packed, changed=0, looked_at=slice(BOUNDARY, None))


def _is_independent(model: PreTrainedModel, inputs: Inputs, changed: int, looked_at: slice) -> bool:
    given, states = inputs.given, []
    if "input_ids" not in given or "MultipleChoice" in type(model).__name__:
        return False
    asked = {"use_cache": False} if takes_cache(type(model)) else {}
    asked |= {"output_hidden_states": True, "return_dict": True}
    with torch.no_grad():
        for shift in (0, 1):
            ids = given["input_ids"].clone()
            ids[:, changed] = (ids[:, changed] + shift - 3) % 90 + 3
            out = model.eval()(**{**given, "input_ids": ids}, **asked)
            # BLT's patcher gives a tuple, of which no entry has a name.
            named = [getattr(out, f"{owner}hidden_states", None) for owner in ("", "encoder_")]
            hidden = named[0] or named[1]
            states.append(_of_text(hidden[-1]) if hidden else _by_token(out, ids))
    # A masked term more or less changes a sum by rounding; a token that is seen moves it far more.
    return torch.allclose(states[0][:, looked_at], states[1][:, looked_at], rtol=1e-4, atol=1e-4)


def _by_token(out: Any, ids: Tensor) -> Tensor:
    """The first of the outputs that has an entry for each token."""
    return next(tensor for _, tensor in outputs(out) if tensor.shape[:2] == ids.shape)


def _of_text(states: Any) -> Tensor:
    """Layers that keep text and image apart give a pair, the text first."""
    while isinstance(states, tuple | list):
        states = states[0]
    return states
