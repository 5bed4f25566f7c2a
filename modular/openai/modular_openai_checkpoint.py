"""OpenAI GPT with activation checkpointing, which transformers does not have for it.

model.activation_checkpointing_enable()
"""

from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.openai import modeling_openai as openai


class Block(openai.Block, GradientCheckpointingLayer):
    pass


class OpenAIGPTPreTrainedModel(openai.OpenAIGPTPreTrainedModel):
    supports_gradient_checkpointing = True
