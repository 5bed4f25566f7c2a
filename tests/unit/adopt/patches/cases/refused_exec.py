import inspect
from transformers.models.llama import modeling_llama

src = inspect.getsource(modeling_llama.LlamaMLP.forward).replace("up_proj", "gate_proj")
exec(src)
modeling_llama.LlamaMLP.forward = forward

# says:
# patch.py:6:35: PG810 LlamaMLP.forward depends on `forward`
#     hint: say what it assigns: --apply 'LlamaMLP.forward = ...'
