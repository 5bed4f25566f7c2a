# What the mixin calls is of the class beside it.
# mypy: disable-error-code="misc, no-any-return"
"""An MLP that computes some tokens at a time, for sequences whose widest tensors do not fit.

    class LlamaMLP(TiledMLP, llama.LlamaMLP): ...

`config.mlp_tile_size` is the number of tokens; None or absent: as many as a token has features.
Of a tile its input is kept, and the rest is computed again in the backward pass, one tile at a
time: an MLP takes the memory of one tile, and a third more of its time.  Outputs and gradients of
states are the parent's bits in float32, with tiles of more than one token; the gradients of weights
are sums over tiles, and so differ in rounding.

Inputs of layers that are kept outside the device are transformers' own option:
`model.activation_checkpointing_enable(offload=True)`.

Only for a module that looks at each token alone, and takes nothing but states.  A mixture, whose
router sees all tokens, is not one.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


class TiledMLP:
    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        size = getattr(self.config, "mlp_tile_size", None) or hidden_states.shape[-1]
        if hidden_states.shape[-2] <= size:
            return self.forward_tile(hidden_states)
        tiles = hidden_states.split(size, dim=-2)
        if torch.is_grad_enabled():
            outputs = [checkpoint(self.forward_tile, tile, use_reentrant=False) for tile in tiles]
        else:
            outputs = [self.forward_tile(tile) for tile in tiles]
        return torch.cat(outputs, dim=-2)

    def forward_tile(self, hidden_states: Tensor) -> Tensor:
        return super().forward(hidden_states)
