"""What tests observe of a model, and how far sums in another order may be apart."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from patchgen.verifying.differences import ROUNDINGS
from patchgen.verifying.inputs.arguments import Batch


def rounding(*dtypes: torch.dtype) -> float:
    """The bound for two routes that sum in another order, for the coarsest of `dtypes`.

    Name the dtype of the softmax as well as the model's.  Llama's eager attention rounds its
    weights to float32 even in a float64 model, and is then no float64 reference.
    """
    return ROUNDINGS * max(torch.finfo(dtype).eps for dtype in dtypes)


def observe(
    model: nn.Module, batch: Batch, *, weights: bool = False, **inputs: Tensor
) -> dict[str, Tensor]:
    """Logits, loss, hidden states and the gradient of every parameter, by name.

    `weights` adds attention weights.  Outputs per token are kept at real tokens only.  A parameter
    without a gradient has no entry.  `inputs` are further arguments of the forward.  The mode of
    the model (`train`, `eval`) does not change.
    """
    model.zero_grad(set_to_none=True)
    asked = {"output_attentions": True} if weights else {}
    out = model(**batch.inputs(), **inputs, output_hidden_states=True, use_cache=False, **asked)
    out.loss.backward()
    observed = {"logits": out.logits[batch.real], "loss": out.loss}
    observed |= {f"hidden_states.{i}": h[batch.real] for i, h in enumerate(out.hidden_states)}
    for kind in (
        ("attentions", "cross_attentions") if weights else ()
    ):  # each (rows, heads, queries, keys)
        given = getattr(out, kind, None) or ()
        observed |= {f"{kind}.{i}": a.transpose(1, 2)[batch.real] for i, a in enumerate(given)}
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    observed |= {f"gradient of {name}": gradient for name, gradient in gradients.items()}
    return {name: tensor.detach().clone() for name, tensor in observed.items()}
