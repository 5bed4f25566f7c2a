"""tiles: an MLP computes some tokens at a time, and keeps the input of each tile alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from transformers import PreTrainedModel

from patchgen.verify.differences import REORDERED
from patchgen.verify.observe.evidence import Evidence
from patchgen.verify.parts.part_check import PairFacts, PartCheck, PlantedError, Route, Scenario


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    tiles = {"mlp_tile_size": 5}
    eager = {"attn_implementation": "eager"}
    return Route("its MLPs", REORDERED, {}, tiles), Route(
        "its MLPs under eager", REORDERED, eager, {**eager, **tiles}
    )


def effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    if variant.saved_bytes >= parent.saved_bytes:
        yield f"{variant.saved_bytes} bytes were saved where the parent saves {parent.saved_bytes}"


@contextmanager
def no_tiles(model: PreTrainedModel) -> Iterator[None]:
    for module in model.modules():
        if hasattr(module, "forward_tile"):
            module.forward_tile = torch.zeros_like
    yield


PART_CHECK = PartCheck(
    part="tiles",
    says="MLPs compute some tokens at a time, and keep the input of each tile alone",
    routes=routes,
    effect=effect,
    effect_scenario=Scenario(train=True),
    planted_errors=(PlantedError("tiles left out", "an MLP gives zeros", no_tiles),),
)
