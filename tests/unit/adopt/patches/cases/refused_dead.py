from transformers.models.llama import modeling_llama


def f(self, a):
    return a


def g():
    pass


modeling_llama.LlamaModel._prepare_decoder_attention_mask = f
modeling_llama._get_unpad_data = g

# says:
# patch.py:12:1: PG810 LlamaModel._prepare_decoder_attention_mask has no effect: LlamaModel has no _prepare_decoder_attention_mask, and nothing calls it
#     hint: name the release that the patch was written for: --release X
