"""bidirectional: a token sees later ones too, and no other text of its row.

The parent computes the same by transformers' own switch, but for texts in one row.
"""

from __future__ import annotations

from collections.abc import Iterator

from transformers import PreTrainedConfig, PreTrainedModel

from patchgen.verifying.differences import REORDERED
from patchgen.verifying.inputs.arguments import Inputs, takes
from patchgen.verifying.inputs.dummy import make_inputs
from patchgen.verifying.observe.evidence import Evidence
from patchgen.verifying.observe.step import is_causal, isolates_packed_texts
from patchgen.verifying.parts.part_check import PairFacts, PartCheck, Scenario, beside_eager


def look_both_ways(parent: PreTrainedModel) -> None:
    """By `config.is_causal`, whose windows reach one token further than those of kernels."""
    for config in _configurations(parent):
        config.is_causal = False
        if getattr(config, "sliding_window", None):
            config.sliding_window -= 1


def _configurations(model: PreTrainedModel) -> list[PreTrainedConfig]:
    held = [getattr(module, "config", None) for module in model.modules()]
    configs = [config for config in held if isinstance(config, PreTrainedConfig)]
    configs += [config.get_text_config() for config in configs]
    return list({id(config): config for config in configs}.values())


def bidirectional_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Tokens depend on later ones; texts in one row are apart where a causal parent's are."""
    before, model = parent.paths[0][0], variant.paths[0][0]
    assert isinstance(before, PreTrainedModel) and isinstance(model, PreTrainedModel)
    if is_causal(model, Inputs(dict(facts.inputs))):
        yield "no output depends on a later token"
    if "position_ids" not in takes(facts.variant_class):
        return
    packed = make_inputs(facts.parent_class, facts.config, Scenario("packed", labels=False))
    for config in _configurations(before):
        config.is_causal = True
    apart = isolates_packed_texts(before, packed)
    for config in _configurations(before):
        config.is_causal = False
    if apart and not isolates_packed_texts(model, packed):
        yield "a text sees another one in its row"


BIDIRECTIONAL = PartCheck(
    part="bidirectional",
    routes=lambda parent_class: beside_eager("is_causal=False", REORDERED, {}, {}),
    effect=bidirectional_effect,
    prepare=look_both_ways,
    keeps_texts_apart=True,
)
