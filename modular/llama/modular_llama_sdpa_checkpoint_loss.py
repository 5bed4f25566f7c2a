"""Llama to train at long sequences: SDPA without a mask, a choice of what is kept for backward, no logits.

For those who run out of memory first.  Checkpointing alone leaves the logits the largest tensors of a step, the loss
in chunks alone leaves the activations; together both are gone.  This is `modular_llama_sdpa`,
`modular_llama_checkpoint` and `modular_llama_loss`:

    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"policy": "selective"})

In training with labels `outputs.logits` is None.  `attn_implementation` is "sdpa" (the default) or "eager".
"""

from modular.llama.modular_llama_checkpoint import LlamaPreTrainedModel as WithPolicies
from modular.llama.modular_llama_loss import LlamaForCausalLM as WithoutLogits
from modular.llama.modular_llama_sdpa import LlamaAttention as OnSdpa
from modular.llama.modular_llama_sdpa import LlamaModel as WithoutMask
from modular.llama.modular_llama_sdpa import LlamaPreTrainedModel as ForSdpa


class LlamaAttention(OnSdpa):
    pass


class LlamaPreTrainedModel(ForSdpa, WithPolicies):
    pass


class LlamaModel(WithoutMask):
    pass


class LlamaForCausalLM(WithoutLogits):
    pass
