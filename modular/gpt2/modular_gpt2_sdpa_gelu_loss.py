"""GPT-2 to train at large batches: SDPA without a mask, an activation of one operation, no logits.

For those who train it from its beginning.  This is `modular_gpt2_sdpa`, `modular_gpt2_gelu` and `modular_gpt2_loss`,
and compiled as a whole it gets no mask where the order of tokens says all, as `modular_llama_sdpa`.

In training with labels `outputs.logits` is None.  `attn_implementation` is "sdpa" (the default) or "eager".
"""

import torch
from transformers.masking_utils import create_causal_mask

from modular.gpt2.modular_gpt2_gelu import GPT2MLP as WithOneGelu
from modular.gpt2.modular_gpt2_loss import GPT2LMHeadModel as WithoutLogits
from modular.gpt2.modular_gpt2_sdpa import GPT2Attention as OnSdpa
from modular.gpt2.modular_gpt2_sdpa import GPT2Block as ForSdpa
from modular.gpt2.modular_gpt2_sdpa import GPT2Model as WithWeights
from modular.gpt2.modular_gpt2_sdpa import GPT2PreTrainedModel as RefusesOthers
from patchgen.edits import edit, new, old
from patchgen.parts.sdpa import causal_mask_if_needed


class GPT2MLP(WithOneGelu):
    pass


class GPT2Attention(OnSdpa):
    pass


class GPT2Block(ForSdpa):
    pass


class GPT2PreTrainedModel(RefusesOthers):
    pass


class GPT2Model(WithWeights):
    @edit("forward")
    def ask_with_the_callers_positions(
        self, attention_mask, causal_mask, inputs_embeds, past_key_values, past_seen_tokens, position_ids
    ):
        with old:
            if position_ids is None:
                past_seen_tokens = past_key_values.get_seq_length() if past_key_values is not None else 0
                position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device) + past_seen_tokens
                position_ids = position_ids.unsqueeze(0)
            ...
            causal_mask = create_causal_mask(
                config=self.config,
                inputs_embeds=inputs_embeds,
                attention_mask=attention_mask,
                past_key_values=past_key_values,
                position_ids=position_ids,
            )
        with new:
            # Counted here they would say that rows may be packed.
            given_positions = position_ids
            if position_ids is None:
                past_seen_tokens = past_key_values.get_seq_length() if past_key_values is not None else 0
                position_ids = torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device) + past_seen_tokens
                position_ids = position_ids.unsqueeze(0)
            ...
            causal_mask = causal_mask_if_needed(
                config=self.config,
                inputs_embeds=inputs_embeds,
                attention_mask=attention_mask,
                past_key_values=past_key_values,
                position_ids=given_positions,
            )


class GPT2LMHeadModel(WithoutLogits):
    pass
