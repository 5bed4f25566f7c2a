"""A tiny Llama with a tokenizer, as a checkpoint that a test writes."""

from pathlib import Path

from transformers import LlamaConfig, LlamaForCausalLM

from patchgen.runtime.tiny import tiny_config
from patchgen.training.loop.texts import shipped_tokenizer
from patchgen.verifying.models.build import draw_weights


def write_checkpoint(folder: Path) -> Path:
    """Rows of up to 64 tokens fit it."""
    tokenizer = shipped_tokenizer()
    config = tiny_config(LlamaConfig, vocab_size=len(tokenizer), max_position_embeddings=64)
    model = LlamaForCausalLM(config)
    draw_weights(model)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
