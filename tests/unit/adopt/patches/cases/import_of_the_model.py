# What the model's file imports is replaced there alone, by a function that sets an attribute.
import copy

from transformers.masking_utils import create_causal_mask as usual
from transformers.models.llama import modeling_llama


def whole_mask(config, **kwargs):
    copied = copy.copy(config)
    copied.is_causal = False
    return usual(config=copied, **kwargs)


modeling_llama.create_causal_mask = whole_mask
# says:
# +# What the model's file imports is replaced there alone, by a function that sets an attribute.
# +
# +
# +import copy
# +
# +from transformers.masking_utils import create_causal_mask as usual
# +from transformers.models.llama.configuration_llama import LlamaConfig
# -from .configuration_llama import LlamaConfig
# +
# +
# +def whole_mask(config, **kwargs):
# +    copied = copy.copy(config)
# +    copied.is_causal = False
# +    return usual(config=copied, **kwargs)
# -        causal_mask = create_causal_mask(
# +        causal_mask = whole_mask(
