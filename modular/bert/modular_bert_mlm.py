"""BERT whose masked-LM head runs on the tokens that have a label.

For those who pretrain or adapt it: with 15 % of the tokens masked, the head (transform, norm, and a matrix of 30,522
rows) does 15 % of its work, and the logits take 15 % of their memory.  Loss and gradients are the same.  See
`patchgen.parts.loss`.

In training with labels there are no `outputs.logits`.  Under `torch.compile` set `config.max_labelled_fraction`.
`BertForPreTraining` is as it was.
"""

from patchgen.parts.loss import LabelledTokens
from transformers.models.bert import modeling_bert as bert


class BertForMaskedLM(LabelledTokens, bert.BertForMaskedLM):
    pass
