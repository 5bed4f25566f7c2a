"""A fork."""

from transformers.integrations import use_kernel_forward_from_hub
from transformers.models.toy import modeling_toy as toy


@use_kernel_forward_from_hub("Experts")
class ToyExperts(toy.ToyExperts):
    pass
