"""Llama with a mixture of experts in place of its FFN: a new model, which takes Llama's checkpoints.

For those who continue the training of a dense model with more parameters at a similar cost per token:

    model = LlamaMoeForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B", num_experts=8, num_experts_per_tok=2)

gives eight copies of each FFN and a router that is drawn: until the first step the function is Llama's.  Options are
those of `patchgen.parts.moe.MixtureOptions`.  Under gradient checkpointing a recompute sends each token to the experts
that the forward pass chose (`patchgen.parts.checkpoint`).  `experts_implementation="lean"` makes experts keep less
for the backward pass (`patchgen.runtime.lean_experts`).

Written by hand: it shows a new model with a configuration of its own.  `patchgen new llama --with moe` writes
`llama_mixture`.
"""

from huggingface_hub.dataclasses import strict
from transformers.models.llama import configuration_llama
from transformers.models.llama import modeling_llama as llama

from patchgen.edits import edit, new, old
from patchgen.parts.checkpoint import ChooseOnce
from patchgen.parts.moe import Mixture, MixtureHead, MixtureModel, MixtureOptions, has_experts


@strict
class LlamaMoeConfig(MixtureOptions, configuration_llama.LlamaConfig):
    model_type = "llama_moe"


class LlamaMoeDecoderLayer(llama.LlamaDecoderLayer):
    @edit("__init__")
    def mix_experts(self, config, layer_idx):
        with old:
            self.mlp = llama.LlamaMLP(config)
        with new:
            if has_experts(config, layer_idx):
                self.mlp = Mixture(config, gated=True, bias=config.mlp_bias)
            else:
                self.mlp = llama.LlamaMLP(config)


class LlamaMoePreTrainedModel(ChooseOnce, MixtureModel, llama.LlamaPreTrainedModel):
    _dense_weights = {
        "mlp.experts.gate_up_proj": ("mlp.gate_proj.weight", "mlp.up_proj.weight"),
        "mlp.experts.gate_up_proj_bias": ("mlp.gate_proj.bias", "mlp.up_proj.bias"),
        "mlp.experts.down_proj": ("mlp.down_proj.weight",),
        "mlp.experts.down_proj_bias": ("mlp.down_proj.bias",),
    }


class LlamaMoeModel(llama.LlamaModel):
    pass


class LlamaMoeForCausalLM(MixtureHead, llama.LlamaForCausalLM):
    pass


__all__ = ["LlamaMoeConfig", "LlamaMoeForCausalLM", "LlamaMoeModel", "LlamaMoePreTrainedModel"]
