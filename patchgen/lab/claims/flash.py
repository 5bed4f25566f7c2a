"""flash: layers run on real tokens alone, and compute for them what the parent does.

Errors are planted around the functions of the part that a forward calls: where sequences begin, which positions their
tokens have, where states go back to, and the attention.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from patchgen.lab.claim import Claim, Plant, Route, Scene, Specimen, around, defines
from patchgen.lab.evidence import Evidence
from patchgen.lab.specimen import inputs_for
from patchgen.lab.tolerance import REORDERED

PADDED = Scene(rows="right", train=True)


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """What the parent computes at real tokens, by SDPA and written out."""
    ours = {"attn_implementation": "sdpa"}
    eager = Route("eager", REORDERED, {"attn_implementation": "eager"}, ours)
    return (Route("sdpa", REORDERED, ours, ours), eager) if parent_class._supports_sdpa else (eager,)


def effect(parent: Evidence, variant: Evidence, specimen: Specimen) -> Iterator[str]:
    """Each layer and each of its matrix products ran on as many tokens as are real, and nothing made a mask."""
    real = inputs_for(specimen.parent_class, specimen.config, PADDED).real[0]
    tokens, places = int(real.sum()), real.numel()
    if tokens == places:
        yield "the batch has no padding"
    for name in layers_of(specimen):
        shapes, before = variant.forwards.get(name, []), parent.forwards.get(name, [])
        if len(shapes) != len(before) or any(shape[:2] != (1, tokens) for shape in shapes):
            yield f"{name} ran on {sorted(set(shapes))}, not on one row of {tokens} tokens"
    # A head runs on all places, or on labelled tokens.
    layers = sum(variant.ran(name) for name in layers_of(specimen))
    products, heads = products_over(variant, tokens), products_over(variant, places)
    if products < layers or heads >= layers:
        yield f"of the matrix products {products} ran over {tokens} tokens, and {heads} over all {places} places"
    if masked := sum(call.mask in ("bool", "float") for call in variant.trace.sdpa):
        yield f"{masked} attentions had a mask"
    longest = int(real.sum(1).max())
    if wide := [call.key for call in variant.trace.sdpa if call.key[-2] > longest]:
        yield f"an attention ran over {wide[0][-2]} keys, and no sequence has more than {longest} tokens"


def layers_of(specimen: Specimen) -> list[str]:
    """The classes of layers that the generated module defines."""
    members = inspect.getmembers(specimen.module, inspect.isclass)
    own = ((name, each) for name, each in members if each.__module__ == specimen.module.__name__)
    return [name for name, each in own if issubclass(each, GradientCheckpointingLayer)]


def products_over(evidence: Evidence, places: int) -> int:
    """Linear layers that ran on so many places."""
    return sum(prod(shape[:-1]) == places for shape in evidence.forwards.get("Linear", ()))


def shifted_boundaries(attend: Callable[..., Any], *args: Any, cu_seq_lens_q: Tensor, **kwargs: Any) -> Any:
    """Each sequence is counted one token too long, and those after it begin late."""
    late = torch.arange(len(cu_seq_lens_q), device=cu_seq_lens_q.device, dtype=cu_seq_lens_q.dtype)
    starts = (cu_seq_lens_q + late).clamp(max=int(cu_seq_lens_q[-1]))
    return attend(*args, cu_seq_lens_q=starts, **kwargs | {"max_length_q": int(starts.diff().max())})


def one_sequence(attend: Callable[..., Any], *args: Any, cu_seq_lens_q: Tensor, **kwargs: Any) -> Any:
    tokens = int(cu_seq_lens_q[-1])
    ends = cu_seq_lens_q[[0, -1]]
    return attend(*args, cu_seq_lens_q=ends, **kwargs | {"max_length_q": tokens})


def wrong_scale(attend: Callable[..., Any], *args: Any, scaling: float | None = None, **kwargs: Any) -> Any:
    scaling = args[1].shape[-1] ** -0.5 if scaling is None else scaling
    return attend(*args, scaling=scaling * 2, **kwargs)


def turned_causality(attend: Callable[..., Any], module: Any, *args: Any, **kwargs: Any) -> Any:
    return attend(module, *args, **kwargs | {"is_causal": not module.is_causal})


def running_positions(count: Callable[..., Tensor], *args: Any) -> Tensor:
    """Positions of the one row, and not of the rows that there were."""
    first = count(*args)
    ahead = first.new_tensor(range(first.shape[0])) * 2
    return first + ahead[:, None]


def rolled_states(put_back: Callable[..., Tensor], states: Tensor, *args: Any) -> Tensor:
    """Each state goes to the next token's place."""
    return put_back(states.roll(1, dims=1), *args)


def _is_causal(specimen: Specimen) -> bool:
    return defines("flash_attention")(specimen) and specimen.causal


def _is_absolute(specimen: Specimen) -> bool:
    # Rotary positions are relative: what a whole sequence is shifted by is not seen.
    return defines("positions_of")(specimen) and not specimen.causal


CLAIM = Claim(
    part="flash",
    says="layers run on real tokens alone, and compute for them what the parent computes",
    routes=routes,
    effect=effect,
    shown_in=PADDED,
    attentions=("sdpa", "eager"),
    # The kernels give none, and the parent's path under "sdpa" neither.
    weights_under="eager",
    same_draws=False,
    plants=(
        Plant(
            "boundaries off by one",
            "a sequence ends with the first token of the next",
            around("flash_attention", shifted_boundaries),
            scene=Scene(rows="left", train=True),
            fits=defines("flash_attention"),
        ),
        Plant(
            "boundaries lost",
            "tokens of other rows are attended to",
            around("flash_attention", one_sequence),
            scene=Scene(rows="left", train=True),
            fits=defines("flash_attention"),
        ),
        Plant(
            "scale",
            "scores are twice as large",
            around("flash_attention", wrong_scale),
            scene=PADDED,
            fits=defines("flash_attention"),
        ),
        Plant(
            "causality lost",
            "later tokens are seen",
            around("flash_attention", turned_causality),
            scene=PADDED,
            fits=_is_causal,
        ),
        Plant(
            "positions run on",
            "positions do not restart with each row",
            around("positions_of", running_positions),
            scene=PADDED,
            fits=_is_absolute,
        ),
        Plant(
            "order lost",
            "states go back to the places of other tokens",
            around("padded", rolled_states),
            scene=PADDED,
            fits=defines("padded"),
        ),
    ),
)
