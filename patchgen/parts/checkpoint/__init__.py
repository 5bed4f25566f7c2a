"""Activation checkpointing: of every layer, of every k-th, or of all but the dear operations.

A model that has none gets it by two classes, of which transformers has the one for the layers.  One that has it gains
the choice of what is kept, by the second class alone.

    class MPNetLayer(mpnet.MPNetLayer, GradientCheckpointingLayer): ...
    class MPNetPreTrainedModel(Checkpointing, mpnet.MPNetPreTrainedModel): ...

Options are given where users of transformers give them: `gradient_checkpointing_kwargs` of `TrainingArguments` and of
`model.gradient_checkpointing_enable` (in releases that renamed them, `activation_checkpointing_...`).

    policy  "full" (the default): a layer's inputs are kept, the rest is computed again in the backward pass
            "selective": the outputs of matrix products and of attention are kept too, and not computed again
    every   k: the layers 0, k, 2k, ... are checkpointed, the others keep everything (transformers: `every_n_layers`)

`determinism_check` and `debug` go on to torch.  Refused, by a ValueError when it is switched on:

- any other option: torch would hand it to the layer, which swallows it.
- `use_reentrant=True`: what reaches a layer by keyword, or from frozen layers, would get no gradient.
- `preserve_rng_state=False`: the recompute would draw other dropout masks.
- keys and values that layers share, unless they go from layer to layer openly (`shared_kv_states`): a checkpointed
  layer has no cache.

and by an error when it runs: a cache with something in it, unless it is given as `past_key_values`; a layer whose
buffers its own forward changes, since the recompute would read and change them again.  Running statistics of batch
norms, which training does not read, are put back after the recompute instead.

A router decides once.  What it chose (top-k, sort, argmax) is kept under both policies, so that a recompute that
rounds otherwise sends no token to another expert.  Whether a layer chooses shows when it runs for the first time.
"""

from patchgen.parts.checkpoint.model import Checkpointing

__all__ = ["Checkpointing"]
