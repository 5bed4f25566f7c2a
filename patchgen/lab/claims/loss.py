"""loss: the loss of a language model without logits of all tokens, of the same value and gradients.

Both count in training with labels alone, so everything is shown there.  Errors are planted around the functions of the
part that a forward calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from patchgen.lab.claim import Claim, Hidden, Plant, Route, Scene, Specimen, around, defines
from patchgen.lab.evidence import Evidence
from patchgen.lab.tolerance import REORDERED

Loss = Callable[..., Tensor]
TRAINED = Scene(train=True)


def routes(parent_class: type[PreTrainedModel]) -> tuple[Route, ...]:
    """The parent's own logits and loss, with its usual attention and with the one that is written out."""
    eager = {"attn_implementation": "eager"}
    return Route("logits", REORDERED), Route("logits under eager", REORDERED, parent=eager)


def effect(parent: Evidence, variant: Evidence, specimen: Specimen) -> Iterator[str]:
    """Nothing of tokens by vocabulary is saved; or the head ran on as many tokens as have a label."""
    words = specimen.config.get_text_config().vocab_size
    labels = specimen.inputs["labels"]
    if not _rows_of(parent, words) >= labels.numel():
        yield "the parent saves no logits either"
    if defines("labelled_tokens")(specimen):
        labelled = int((labels != -100).sum())
        if not any(
            len(shape) == 2 and shape[0] == labelled for shapes in variant.forwards.values() for shape in shapes
        ):
            yield f"no module ran on the {labelled} labelled tokens"
    elif saved := _rows_of(variant, words):
        yield f"logits of {saved} tokens are saved"


def _rows_of(evidence: Evidence, words: int) -> int:
    """Of the largest saved tensor whose last axis is the vocabulary."""
    return max((prod(each.shape[:-1]) for each in evidence.saved if each.shape[-1:] == (words,)), default=0)


def forgotten_items(loss: Loss, *args: Any, num_items_in_batch: Any = None, **kwargs: Any) -> Tensor:
    return loss(*args, **kwargs)


def lost_shift(
    loss: Loss, model: Any, head: Any, states: Tensor, logits: Any, labels: Tensor | None, *rest: Any, **kwargs: Any
) -> Tensor:
    if labels is None:  # they are given shifted: Moonshine's decoder is
        return loss(
            model, head, states, logits, labels, *rest, **kwargs | {"shift_labels": kwargs["shift_labels"].roll(1, -1)}
        )
    return loss(model, head, states, logits, labels, *rest, **kwargs | {"shift_labels": labels})


def lost_gradient(loss: Loss, model: Any, head: Any, states: Tensor, *rest: Any, **kwargs: Any) -> Tensor:
    return loss(model, head, states.detach(), *rest, **kwargs)


def shifted(loss: Loss, model: Any, head: Any, states: Tensor, logits: Any, labels: Tensor) -> Tensor:
    return loss(model, head, states, logits, labels.roll(-1, -1))


def no_cap(loss: Loss, *args: Any, softcap: float | None = None, **kwargs: Any) -> Tensor:
    return loss(*args, **kwargs)


def no_scale(loss: Loss, *args: Any, scale: float | None = None, **kwargs: Any) -> Tensor:
    return loss(*args, **kwargs)


def neighbours_label(select: Callable[..., tuple[Tensor, Tensor]], *args: Any) -> tuple[Tensor, Tensor]:
    states, labels = select(*args)
    return states, labels.roll(1)


def missing_tokens(select: Callable[..., tuple[Tensor, Tensor]], *args: Any) -> tuple[Tensor, Tensor]:
    states, labels = select(*args)
    return states[::2], labels[::2]


def _by_keyword(loss: Loss, *args: Any, logits: Any = None, labels: Any = None, **kwargs: Any) -> Any:
    """For `lost_shift`: models name these arguments or do not."""
    model, head, states, *rest = args
    logits = rest.pop(0) if rest else logits
    labels = rest.pop(0) if rest else labels
    return lost_shift(loss, model, head, states, logits, labels, *rest, **kwargs)


def _setting(*names: str) -> Callable[[Specimen], bool]:
    """For `Plant.fits`: the loss is taken from states, and one of these settings does something."""

    def fits(specimen: Specimen) -> bool:
        config = specimen.config.get_text_config()
        return defines("loss_from_states")(specimen) and any(
            getattr(config, n, None) not in (None, 1.0) for n in names
        )

    return fits


CAUSAL, MASKED = defines("loss_from_states"), defines("labelled_tokens")
OWN_LABEL = defines("unshifted_loss_from_states")

CLAIM = Claim(
    part="loss",
    says="in training the loss is taken without logits of all tokens; value and gradients are the parent's",
    routes=routes,
    effect=effect,
    shown_in=TRAINED,
    hides=(
        Hidden("logits", "they are not computed in training with labels", lambda scene: scene.train and scene.labels),
    ),
    plants=(
        Plant(
            "loss scaled by accumulation",
            "each micro-batch's loss is its own mean",
            around("loss_from_states", forgotten_items),
            scene=Scene(train=True, accumulate=2),
            fits=CAUSAL,
        ),
        Plant(
            "shift lost",
            "each token predicts itself",
            around("loss_from_states", _by_keyword),
            scene=TRAINED,
            fits=CAUSAL,
        ),
        Plant(
            "states detached",
            "the head learns, the layers do not",
            around("loss_from_states", lost_gradient),
            scene=TRAINED,
            fits=CAUSAL,
        ),
        Plant(
            "soft-cap left out",
            "logits are not capped",
            around("loss_from_states", no_cap),
            scene=TRAINED,
            fits=_setting("final_logit_softcapping"),
        ),
        Plant(
            "scale left out",
            "logits are not scaled",
            around("loss_from_states", no_scale),
            scene=TRAINED,
            fits=_setting("logit_scale", "logits_scaling", "lm_head_multiplier"),
        ),
        Plant(
            "shift gained",
            "a head whose tokens have labels of their own predicts the next",
            around("unshifted_loss_from_states", shifted),
            scene=TRAINED,
            fits=OWN_LABEL,
        ),
        Plant(
            "states detached from the own label",
            "the head learns, the layers do not",
            around("unshifted_loss_from_states", lost_gradient),
            scene=TRAINED,
            fits=OWN_LABEL,
        ),
        Plant(
            "label of the neighbour",
            "each token has the label of the one before",
            around("labelled_tokens", neighbours_label),
            scene=TRAINED,
            fits=MASKED,
        ),
        Plant(
            "missing tokens",
            "every other labelled token does not count",
            around("labelled_tokens", missing_tokens),
            scene=TRAINED,
            fits=MASKED,
        ),
    ),
)
