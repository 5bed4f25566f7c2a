"""OpenAI GPT with activation checkpointing, which transformers does not have for it.

    model.activation_checkpointing_enable()

A layer returns a tuple for its list: of a list, `use_reentrant=True` gives no gradient.

Written by hand: it shows a part beside an edit that the part needs.
"""

from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.openai import modeling_openai as openai

from patchgen.edits import edit, new, old


class Block(openai.Block, GradientCheckpointingLayer):
    @edit("forward")
    def return_a_tuple(self, attn_outputs, h):
        with old:
            outputs = [h] + attn_outputs[1:]
        with new:
            outputs = (h, *attn_outputs[1:])


class OpenAIGPTPreTrainedModel(openai.OpenAIGPTPreTrainedModel):
    supports_gradient_checkpointing = True
