"""BERT whose LayerNorms follow autocast, and with them the residual stream.

For those who train it with weights in float32 under autocast to bfloat16 or float16 (`bf16=True` of
`TrainingArguments`), where transformers' norms read, write and keep float32.  Training is that of MosaicBERT (Portes
et al. 2023, arXiv:2312.17482), not bit for bit that of BERT: sums between layers are rounded to autocast's dtype.
Without autocast nothing changes, also not with weights in bfloat16.  See `patchgen.parts.norm`.
"""

from patchgen.parts.norm import LowPrecisionNorm
from transformers.models.bert import modeling_bert as bert


class BertEmbeddings(LowPrecisionNorm, bert.BertEmbeddings):
    pass


class BertSelfOutput(LowPrecisionNorm, bert.BertSelfOutput):
    pass


class BertOutput(LowPrecisionNorm, bert.BertOutput):
    pass


class BertPredictionHeadTransform(LowPrecisionNorm, bert.BertPredictionHeadTransform):
    pass
