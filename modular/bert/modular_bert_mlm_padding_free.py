"""BERT to pretrain: layers compute no padding, and the masked-LM head runs on the tokens that have a label.

For those who pretrain or adapt it: of a batch in which 45 of 100 places are padding and 15 of 100 tokens have a label,
layers compute 55 places, and the head 8.  Loss and gradients are BERT's.  This is the variant of
`modular_bert_padding_free` and that of `modular_bert_mlm`; `python benchmarks/padding.py` measures a step of training.
"""

from modular.bert.modular_bert_mlm import BertForMaskedLM as OnLabels
from modular.bert.modular_bert_padding_free import BertForQuestionAnswering as OnRows
from modular.bert.modular_bert_padding_free import BertModel as OnTokens
from modular.bert.modular_bert_padding_free import BertSelfAttention as InRows


class BertSelfAttention(InRows):
    pass


class BertModel(OnTokens):
    pass


class BertForMaskedLM(OnLabels):
    pass


class BertForQuestionAnswering(OnRows):
    pass
