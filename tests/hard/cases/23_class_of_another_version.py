# expect: E PG103 toypack/modular_toy_fast.py:4:19
# hint: did you mean
# search: installed
# --- modular_toy_fast.py
from transformers.models.llama.modeling_llama import LlamaSdpaAttention


class MyAttention(LlamaSdpaAttention):
    size = 2
