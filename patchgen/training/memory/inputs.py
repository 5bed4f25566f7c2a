"""Makes a batch for one training step: the inputs that `verify` gives a class, enlarged."""

from __future__ import annotations

import math

from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from patchgen.verify.inputs.arguments import ANSWER, LENGTH, ROWS, CannotBuild, takes
from patchgen.verify.inputs.arguments import batch as tokens
from patchgen.verify.inputs.dummy import make_inputs
from patchgen.verify.parts.part_check import Scenario

# The decoder of an encoder-decoder needs one of them.
_ANSWERS = frozenset({"labels", "decoder_input_ids"})


def batch_for(
    model_class: type[PreTrainedModel], config: PreTrainedConfig, batch: int, length: int
) -> dict[str, Tensor]:
    """Return the arguments of forward on the CPU: `batch` rows of `length` tokens, without padding.

    Images and audio have the size that the configuration says.  Raises ValueError where no inputs
    are known for the class.
    """
    try:
        small = make_inputs(model_class, config, Scenario())
    except CannotBuild as error:
        raise ValueError(f"{model_class.__name__}: {error}") from error
    if (
        config.is_encoder_decoder
        and "labels" in takes(model_class)
        and not _ANSWERS & small.given.keys()
    ):
        small.given["labels"] = tokens(rows=ROWS, length=ANSWER).input_ids
    return {name: _stretched(tensor, batch, length) for name, tensor in small.given.items()}


def _stretched(tensor: Tensor, batch: int, length: int) -> Tensor:
    """Repeat the tensor along the rows, and along the tokens where it has such an axis."""
    sizes = [batch, *tensor.shape[1:]]
    if tensor.dim() > 1 and not tensor.is_floating_point():
        sizes[1:] = [length if size in (LENGTH, ANSWER) else size for size in sizes[1:]]
    times = [math.ceil(wanted / size) for wanted, size in zip(sizes, tensor.shape, strict=True)]
    many = tensor.repeat(times)[tuple(slice(size) for size in sizes)]
    return many.float() if many.is_floating_point() else many.clone()
