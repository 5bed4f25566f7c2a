"""A mixture of experts in place of a dense model's FFN, in every layer or in every k-th.

A router sends each token to `num_experts_per_tok` experts (top-k of its logits, computed in at
least float32), and the outputs of the experts are summed with gates that sum to one.  The experts
are stacked weights, run by transformers' interface: the number of operations does not grow with the
number of experts.

A mixture is a model of its own.  `MixtureOptions` goes before the parent's configuration,
`MixtureModel` before its `PreTrainedModel`, `MixtureHead` before its head, and `Mixture` in the
place of its FFN, as `modular/llama/modular_llama_moe.py` shows.

Options are attributes of the configuration: see `MixtureOptions`.  `experts_implementation` takes
every name that transformers has: "grouped_mm" is the default, "eager" a loop over experts.

**Upcycling.**  `from_pretrained` of the mixture's class takes a checkpoint of the dense model,
`upcycle` a dense model itself: each expert becomes a copy of the FFN, and the router is drawn.
Until the first step the function is the dense model's, and the experts' gradients sum up to its
FFN's.  A ValueError refuses what would not be the same function (`num_experts_per_tok` of 1, gates
that do not sum to one).  What is saved is the mixture: there is no way back.

**Several processes.**  Plans are the parent's, with rules for experts as transformers' Mixtral has
them: by inner features for tensor parallelism, by expert for expert parallelism.  Experts with
biases are split by expert alone.

**Losses.**  In training with labels, transformers' load-balancing loss and the z-loss of the
routers, over real tokens only, are added to the loss.  In evaluation, and with
`output_router_logits=False`, the loss is the model's alone.
"""

from patchgen.parts.moe.experts import MixtureExperts
from patchgen.parts.moe.losses import with_router_losses, z_loss
from patchgen.parts.moe.mixture import Mixture, has_experts
from patchgen.parts.moe.model import MixtureHead, MixtureModel, MixtureOptions
from patchgen.parts.moe.routing import MixtureRouter
from patchgen.parts.moe.upcycle import CopyToExperts, upcycle, upcycling

__all__ = [
    "CopyToExperts",
    "Mixture",
    "MixtureExperts",
    "MixtureHead",
    "MixtureModel",
    "MixtureOptions",
    "MixtureRouter",
    "has_experts",
    "upcycle",
    "upcycling",
    "with_router_losses",
    "z_loss",
]
