"""The loss of a language model without its logits: in chunks, or on labelled tokens only.

`ChunkedLoss` and its kin are for heads that predict at every token.  Logits exist for one chunk of
tokens at a time.  They become their gradient at once, and what is kept between the passes is the
gradients of states and weight: three products, as many as with all logits.  In float16, where small
gradients have to be scaled before they are rounded, and where the loss of each token is wanted, the
states are kept, and the backward pass computes the logits again.  A weight that is frozen, as under
LoRA, costs no product.  The loss has no second derivative.

`LabelledTokens` is for masked language models, where a few tokens in a hundred have a label: the
head runs on those alone.

`ChunkedLoss` works with labels, in training and in evaluation; `LabelledTokens` in training.  The
logits of such a step are `DeferredLogits`: shape, dtype and device, and the parent's logits, in
training with their gradient, as soon as something reads them: metrics, a loss of one's own,
`Trainer.predict`.  They are read before the optimizer's step; later they are an error.  What reads
them in each step pays for them.  An `autograd.Function` or DTensor that takes them as they are
would get no gradient, and the former is an error: hand it `logits.contiguous()`.

The parent's statements run, and its loss reads logits:

- without labels, or with `loss_chunk_size = 0`;
- with `logits_to_keep` that keeps less than everything;
- where the user has set a `loss_function`;
- in replicas of `DataParallel`, which gathers all outputs;
- where the head is no plain linear layer any more and has to be called: with an adapter of LoRA,
  quantized, split by tensor parallelism (the part `split_loss` is for that), or with hooks as
  ZeRO-3 and accelerate set them.  A warning says so once.

FSDP2 may make the head a group: it is called, and computes the loss in the place of its logits.
`LabelledTokens` runs the head on all tokens under ZeRO-3, whose hooks would read the logits.

`reduction="none"` in the call gives the loss of each token, (B, L): minus the log-probability of
its label, as DPO and GRPO need them, in chunks too.

What happens to logits between two products is compiled by inductor when there first are 4 million
logits, inside the operator, so that nothing of it shows under `torch.compile`: some 15 seconds on a
CPU, once for each dtype and kept on disk.  Without a compiler the same code runs as it is written.

Options are attributes of the configuration:

    loss_chunk_size        tokens in a chunk; 0: the parent's statements; None or absent: as many as
                           make 2**27 logits, half a gigabyte in float32, in steps of 256 and at
                           least 256
    max_labelled_fraction  for `LabelledTokens`: see there

torch's own `linear_cross_entropy` (2.13) is not used: it has no cap, adds up the gradient of the
weight in the dtype of the weight, and leaves the graph under `torch.compile`.
"""

from patchgen.parts.loss.chunked import (
    AlwaysCappedChunkedLoss,
    BiasedChunkedLoss,
    ChunkedLoss,
    DividedChunkedLoss,
    ScaledCappedChunkedLoss,
    ScaledChunkedLoss,
    SoftcappedChunkedLoss,
    UnshiftedChunkedLoss,
)
from patchgen.parts.loss.labelled import (
    LabelledTokens,
    LabelledTokensByFunction,
    LabelledTokensOfEitherHead,
)

__all__ = [
    "AlwaysCappedChunkedLoss",
    "BiasedChunkedLoss",
    "ChunkedLoss",
    "DividedChunkedLoss",
    "LabelledTokens",
    "LabelledTokensByFunction",
    "LabelledTokensOfEitherHead",
    "ScaledCappedChunkedLoss",
    "ScaledChunkedLoss",
    "SoftcappedChunkedLoss",
    "UnshiftedChunkedLoss",
]
