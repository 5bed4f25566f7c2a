"""GPT-2 to train at large batches: an activation of one operation, and no logits.

For those who train it from its beginning.  This is `modular_gpt2_gelu` and `modular_gpt2_loss`.

Written by hand: it shows how a variant takes classes of two others.
"""

from modular.gpt2.modular_gpt2_gelu import GPT2MLP as WithOneGelu
from modular.gpt2.modular_gpt2_loss import GPT2LMHeadModel as WithoutLogits


class GPT2MLP(WithOneGelu):
    pass


class GPT2LMHeadModel(WithoutLogits):
    pass
