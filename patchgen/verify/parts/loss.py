"""The loss of a language model without the logits of all tokens: the parts `loss` and `liger`.

Value and gradients are the parent's.  The parts work only in training with labels, so all is
checked there.  Kernels of Liger, which run on a GPU, compute what the parent's statements do, in
float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from patchgen.verify.differences import IN_FLOAT32, REORDERED
from patchgen.verify.models.build import is_interpreted
from patchgen.verify.observe.evidence import Evidence
from patchgen.verify.parts.part_check import PairFacts, PartCheck, beside_eager


def loss_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """No logits and no copy of the head are saved, or the head ran on labelled tokens only."""
    words = facts.config.get_text_config().vocab_size
    labels = facts.inputs["labels"]
    if not rows_of(parent, words) >= labels.numel():
        yield "the parent saves no logits either"
    if hasattr(facts.module, "labelled_tokens"):
        labelled = int((labels != -100).sum())
        shapes = (shape for ran in variant.forwards.values() for shape in ran)
        if not any(len(shape) == 2 and shape[0] == labelled for shape in shapes):
            yield f"no module ran on the {labelled} labelled tokens"
        return
    if saved := rows_of(variant, words):
        yield f"logits of {saved} tokens are saved"
    matrices = [each.shape for each in variant.saved_storages if len(each.shape) == 2]
    copies = [shape for shape in matrices if shape[0] == words]
    if copies and not any(each.shape in copies for each in parent.saved_storages):
        yield f"a matrix as large as the head's is saved: {copies[0]}"


def rows_of(evidence: Evidence, words: int) -> int:
    shapes = (each.shape for each in evidence.saved_storages if each.shape[-1:] == (words,))
    return max((prod(shape[:-1]) for shape in shapes), default=0)


def liger_effect(parent: Evidence, variant: Evidence, facts: PairFacts) -> Iterator[str]:
    """Kernels ran in place of functions of torch, and no logits are saved where the loss is one."""
    ours, theirs = sum(variant.functions.values()), sum(parent.functions.values())
    # Triton's interpreter runs a kernel as many functions of torch.
    if ours >= theirs and not is_interpreted():
        yield f"{ours} functions of torch were called where the parent calls {theirs}"
    saved = rows_of(variant, facts.config.get_text_config().vocab_size)
    if hasattr(facts.module, "liger_causal_loss") and saved:
        yield f"logits of {saved} tokens are saved"


FEW_PLACES = 0.9
LOSS = PartCheck(
    part="loss",
    routes=lambda parent_class: beside_eager("logits", REORDERED, {}, {}),
    effect=loss_effect,
    # With labels, unless the configuration asks for logits: `loss_chunk_size = 0`.  On labelled
    # tokens only in training; what a variant gives all the same is compared.
    hides_logits=lambda scenario, changes: (
        scenario.labels and changes.get("loss_chunk_size") != 0
    ),
    # Where more tokens have a label than there are places: a loss of some would be silently wrong.
    refuses_a_loss=lambda changes: (changes.get("max_labelled_fraction") or 1) < FEW_PLACES,
)
LIGER = PartCheck(
    part="liger",
    routes=lambda parent_class: beside_eager("statements", IN_FLOAT32, {}, {}),
    effect=liger_effect,
    hides_logits=lambda scenario, changes: scenario.train and scenario.labels,
)
