"""OpenAI GPT with activation checkpointing, which transformers does not have for it."""

from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.openai import modeling_openai as openai

from patchgen.parts.checkpoint import Checkpointing


class Block(openai.Block, GradientCheckpointingLayer):
    pass


class OpenAIGPTPreTrainedModel(Checkpointing, openai.OpenAIGPTPreTrainedModel):
    pass
