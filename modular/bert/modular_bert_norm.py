"""bert with norm, written by `patchgen new`.

Each LayerNorm computes, and gives, autocast's dtype where that is on. See `patchgen.parts.norm`.
"""

from transformers.models.bert import modeling_bert as bert

from patchgen.parts.norm import LowPrecisionNorm


class BertEmbeddings(LowPrecisionNorm, bert.BertEmbeddings):
    pass


class BertSelfOutput(LowPrecisionNorm, bert.BertSelfOutput):
    pass


class BertOutput(LowPrecisionNorm, bert.BertOutput):
    pass


class BertPredictionHeadTransform(LowPrecisionNorm, bert.BertPredictionHeadTransform):
    pass
