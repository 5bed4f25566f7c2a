# search: installed
# reason: a model of another file initialises what is in it, wherever it stands
# --- modular modular_dpr_x.py
from transformers.models.dpr import modeling_dpr as dpr


class DPRReader(dpr.DPRReader):
    extra = 1
# --- flat modeling_dpr_x.py: DPRPreTrainedModel
# defines DPRContextEncoderOutput, DPRQuestionEncoderOutput, DPRReaderOutput, DPRPreTrainedModel, DPREncoder, DPRSpanPredictor, DPRPretrainedContextEncoder, DPRPretrainedQuestionEncoder, DPRPretrainedReader, DPRContextEncoder, DPRQuestionEncoder, DPRReader


@auto_docstring
class DPRPreTrainedModel(PreTrainedModel):
    _supports_sdpa = True
    config: DPRConfig

    @classmethod
    def is_custom_code(cls):
        # Else transformers neither converts checkpoints nor initializes modules without parameters.
        return False
