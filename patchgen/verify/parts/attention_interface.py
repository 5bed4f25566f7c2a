"""attention_interface: the model calls transformers' attention interface, with its masks.

This is no part of patchgen: it is checked if a diff calls the interface.  Errors are planted around
transformers' own function for "sdpa".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from patchgen.verify.differences import REORDERED
from patchgen.verify.parts.part_check import PartCheck, Plant, Route, anywhere
from patchgen.verify.parts.sdpa import Attention, Change, attention_errors, effect


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """The parent's own scores.  Another case checks that "eager" equals them bit for bit."""
    eager, sdpa = {"attn_implementation": "eager"}, {"attn_implementation": "sdpa"}
    return (Route("eager", REORDERED, eager, sdpa),)


def _around_interface(change: Change) -> Plant:
    right = ALL_ATTENTION_FUNCTIONS["sdpa"]

    def wrong(module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any = None, **o: Any) -> Any:
        causal = o.get("is_causal")
        causal = getattr(module, "is_causal", True) if causal is None else causal
        new = change(Attention(q, k, v, mask, causal, o.get("scaling")))
        asked = {**o, "is_causal": new.causal, "scaling": new.scaling}
        return right(module, new.query, new.key, new.value, new.mask, **asked)

    @contextmanager
    def plant(model: PreTrainedModel) -> Iterator[None]:
        ALL_ATTENTION_FUNCTIONS["sdpa"] = wrong
        try:
            yield
        finally:
            del ALL_ATTENTION_FUNCTIONS["sdpa"]

    return plant


PART_CHECK = PartCheck(
    part="attention_interface",
    says="attention is what transformers' interface gives, and computes what the parent's does",
    routes=routes,
    effect=effect,
    attentions=("sdpa", "eager"),
    by_flags=True,
    weights_under="eager",
    planted_errors=attention_errors(_around_interface, anywhere),
)
