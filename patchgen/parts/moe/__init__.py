"""A mixture of experts in place of a dense model's FFN, in every layer or in every k-th.

A router gives each token to `num_experts_per_tok` experts (top-k of its logits, computed in at least float32), and the
experts' outputs are summed by gates that sum to one.  The experts are stacked weights, run by torch's grouped matrix
product: how many there are does not change how many operations run.  A mixture is a model of its own: `MixtureOptions`
goes before the parent's configuration, `MixtureModel` before its `PreTrainedModel`, `MixtureHead` before its head, and
`Mixture` in the place of its FFN, as `modular/llama/modular_llama_moe.py` shows.

Options are attributes of the configuration: see `MixtureOptions`.  `experts_implementation` is transformers': of its
names "grouped_mm" (the default) and "eager" (a loop over experts, the reference) run code of this part, the others
transformers' own.

**Upcycling.**  `from_pretrained` of the mixture's class takes a checkpoint of the dense model, `upcycle` a dense model
itself: each expert becomes a copy of the FFN, and the router is drawn.  Until the first step the function is the dense
model's, and the experts' gradients sum up to its FFN's.  Refused where that would not hold (`num_experts_per_tok`
of 1, gates that do not sum to one).  What is saved is the mixture: there is no way back.

**Several processes.**  Plans are the parent's, with rules for experts as transformers' Mixtral has them: by inner
features for tensor parallelism, by expert for expert parallelism.  Experts with biases are split by expert alone.

**Losses.**  In training with labels the balance of the load and the size of the router's logits are added to the loss
(`router_losses`), of real tokens only and as a mean over layers.  In evaluation the loss is the model's alone.
"""

from patchgen.parts.moe.experts import MixtureExperts
from patchgen.parts.moe.losses import balance_loss, router_losses, with_router_losses, z_loss
from patchgen.parts.moe.mixture import Mixture, MixtureRouter, has_experts
from patchgen.parts.moe.model import MixtureHead, MixtureModel, MixtureOptions
from patchgen.parts.moe.routing import choose_experts, within_capacity
from patchgen.parts.moe.upcycle import CopyToExperts, take_dense_checkpoints, upcycle

__all__ = [
    "CopyToExperts",
    "Mixture",
    "MixtureExperts",
    "MixtureHead",
    "MixtureModel",
    "MixtureOptions",
    "MixtureRouter",
    "balance_loss",
    "choose_experts",
    "has_experts",
    "router_losses",
    "take_dense_checkpoints",
    "upcycle",
    "with_router_losses",
    "within_capacity",
    "z_loss",
]
