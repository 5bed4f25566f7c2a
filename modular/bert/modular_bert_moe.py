"""BERT with a mixture of experts in place of its FFN: a new model, which takes BERT's checkpoints.

For those who continue the pretraining of an encoder with more parameters at a similar cost per token:

    model = BertMoeForMaskedLM.from_pretrained("google-bert/bert-base-uncased", num_experts=8, moe_every=2)

gives eight copies of the FFN of every other layer and a router that is drawn: until the first step the function is
BERT's.  Options are those of `patchgen.parts.moe.MixtureOptions`.  Under gradient checkpointing a recompute sends each
token to the experts that the forward pass chose (`patchgen.parts.checkpoint`); where products are kept, take
`experts_implementation="eager"`: transformers adds biases to its grouped GEMMs in place.

Written by hand: it shows a new model with a configuration of its own.  `patchgen new bert --with moe` writes
`bert_mixture`.
"""

from huggingface_hub.dataclasses import strict
from torch import nn
from transformers.models.bert import configuration_bert
from transformers.models.bert import modeling_bert as bert

from patchgen.parts.checkpoint import ChooseOnce
from patchgen.parts.moe import Mixture, MixtureHead, MixtureModel, MixtureOptions, has_experts


@strict
class BertMoeConfig(MixtureOptions, configuration_bert.BertConfig):
    model_type = "bert_moe"


class BertMoeLayer(bert.BertLayer):
    def __init__(self, config, layer_idx=None):
        super().__init__(config, layer_idx)
        if has_experts(config, layer_idx):
            self.intermediate = Mixture(config, gated=False, bias=True)
            self.output.dense = nn.Identity()  # its dropout, residual and norm stay


class BertMoePreTrainedModel(ChooseOnce, MixtureModel, bert.BertPreTrainedModel):
    _dense_weights = {
        "intermediate.experts.up_proj": ("intermediate.dense.weight",),
        "intermediate.experts.up_proj_bias": ("intermediate.dense.bias",),
        "intermediate.experts.down_proj": ("output.dense.weight",),
        "intermediate.experts.down_proj_bias": ("output.dense.bias",),
    }


class BertMoeModel(bert.BertModel):
    pass


class BertMoeForMaskedLM(MixtureHead, bert.BertForMaskedLM):
    pass


__all__ = ["BertMoeConfig", "BertMoeForMaskedLM", "BertMoeModel", "BertMoePreTrainedModel"]
