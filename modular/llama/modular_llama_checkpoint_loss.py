"""Llama to train at long sequences: no logits, and a choice of what is kept for backward.

For those who run out of memory first.  Checkpointing alone leaves the logits the largest tensors of a step, the loss
in chunks alone leaves the activations; together both are gone.  This is `modular_llama_checkpoint` and
`modular_llama_loss`.  In training with labels `outputs.logits` is None.
"""

from modular.llama.modular_llama_checkpoint import LlamaPreTrainedModel as WithPolicies
from modular.llama.modular_llama_loss import LlamaForCausalLM as WithoutLogits


class LlamaPreTrainedModel(WithPolicies):
    pass


class LlamaForCausalLM(WithoutLogits):
    pass
