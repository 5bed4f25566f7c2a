"""The loss of a language model without its logits: in chunks of tokens, or on labelled tokens only.

`ChunkedLoss` and its kin are for heads that predict at every token: in training with labels, logits and their gradient
exist for one chunk of tokens at a time.  `LabelledTokens` is for masked language models, where a few tokens in a
hundred have a label: the head runs on those alone.

Both count in training (`model.train()`) with labels.  `outputs.logits` is None then, and keeps its place in a tuple
(`return_dict=False`).  In evaluation, without labels, with `logits_to_keep` that keeps less than everything, and where
the user has set a `loss_function`, the parent's own statements run and logits are what they were.

Options are attributes of the configuration:

    loss_chunk_size        tokens in a chunk; 0: the parent's statements, for those who read logits while they train;
                           None or absent: what makes 2**27 logits, half a gigabyte in float32
    max_labelled_fraction  for `LabelledTokens`: see there

torch's own `linear_cross_entropy` (2.13) is not used: it has no scale and no cap, adds up the gradient of the weight
in the weight's dtype, and leaves the graph under `torch.compile`.  On two cores of a CPU (2,048 tokens of size 512,
32,000 words) it took 16.7 s in float32 and 19.6 s in bfloat16, this one 6.1 s and 3.0 s, logits and `cross_entropy`
7.7 s and 3.8 s; on a GPU neither has been compared.
"""

from patchgen.parts.loss.entropy import linear_cross_entropy, mean_loss
from patchgen.parts.loss.heads import (
    AlwaysCappedChunkedLoss,
    ChunkedLoss,
    DividedChunkedLoss,
    LabelledTokens,
    LabelledTokensOfEitherHead,
    ScaledCappedChunkedLoss,
    ScaledChunkedLoss,
    SoftcappedChunkedLoss,
    UnshiftedChunkedLoss,
)
from patchgen.parts.loss.states import (
    labelled_tokens,
    loss_from_states,
    needs_logits,
    unshifted_loss_from_states,
    with_place_for_logits,
)

__all__ = [
    "AlwaysCappedChunkedLoss",
    "ChunkedLoss",
    "DividedChunkedLoss",
    "LabelledTokens",
    "LabelledTokensOfEitherHead",
    "ScaledCappedChunkedLoss",
    "ScaledChunkedLoss",
    "SoftcappedChunkedLoss",
    "UnshiftedChunkedLoss",
    "labelled_tokens",
    "linear_cross_entropy",
    "loss_from_states",
    "mean_loss",
    "needs_logits",
    "unshifted_loss_from_states",
    "with_place_for_logits",
]
