"""Llama with a choice of what activation checkpointing keeps.

    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"policy": "selective"})

or the same `gradient_checkpointing_kwargs` in `TrainingArguments`.  "selective" keeps the outputs of matrix products
and of attention, and computes the rest of a layer again: norms, rotation, activation.  For those whose activations do
not fit, and who would not pay for a second forward pass.  Without a policy it does what transformers does.
"""

from transformers.models.llama import modeling_llama as llama

from patchgen.parts.checkpoint import Checkpointing


class LlamaPreTrainedModel(Checkpointing, llama.LlamaPreTrainedModel):
    pass
