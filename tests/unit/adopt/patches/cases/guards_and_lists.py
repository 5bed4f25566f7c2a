# LLaMA-Factory and KVCache-Factory: an import under a condition, lists of methods, another class.
# apply: apply("half", exact=False)
from transformers import pytorch_utils
from transformers.utils import is_torch_available, logging

if is_torch_available():
    from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm

logger = logging.get_logger(__name__)


def half(self, x):
    logger.debug("half of %s", type(x))
    return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x)) / 2


def apply(method="half", exact=False):
    if method in ["half", "all"] and not exact:
        LlamaMLP.forward = half
    if method not in ("half", "none") or exact:
        LlamaRMSNorm.forward = half
    pytorch_utils.Conv1D.is_patched = True


# says:
# patch.py:22:5: transformers.pytorch_utils.Conv1D.is_patched stands outside of the model's file, and is left out
# +# LLaMA-Factory and KVCache-Factory: an import under a condition, lists of methods, another class.
# +# apply: apply("half", exact=False)
# +
# +
# +
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# -        down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))
# -        return down_proj
# +        logger.debug("half of %s", type(x))
# +        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x)) / 2
