import inspect
from transformers.models.llama import modeling_llama

src = inspect.getsource(modeling_llama.LlamaMLP.forward).replace("up_proj", "gate_proj")
exec(src)
modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:4:7: PG810 `inspect.getsource(modeling_llama.LlamaMLP.forward)` stands where this file does not say what becomes of it
#     hint: say what it assigns, as in --apply 'LlamaAttention.forward = forward'
