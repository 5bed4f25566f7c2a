"""Provides the tokenizer: that of a checkpoint, or one that is trained on the text.

A trained tokenizer is a byte-level BPE, which encodes every text and decodes it unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.loop.options import refuse

# In the order of their ids.  `<s>` and `</s>` are also BERT's class and separator tokens.
SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>"}
BYTES = 256


def train_tokenizer(texts: Iterable[str], size: int) -> Any:
    """Train a tokenizer of at most `size` tokens that puts `<s>` and `</s>` around a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    if size < BYTES + len(SPECIAL):
        least = BYTES + len(SPECIAL)
        refuse("vocabulary", size, f"every byte and {len(SPECIAL)} special tokens are {least}")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL.values()),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    first, last = SPECIAL["bos_token"], SPECIAL["eos_token"]
    around = [(token, tokenizer.token_to_id(token)) for token in (first, last)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}", special_tokens=around
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **SPECIAL,
        cls_token=first,
        sep_token=last,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )


def load_tokenizer(name: str) -> Any | None:
    """Return the tokenizer of that name or checkpoint; None where it has none, or "" is given."""
    if not name:
        return None
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, KeyError):  # what transformers raises where it finds none
        return None
    if len(tokenizer) < 2:  # made of nothing but a name, without a vocabulary
        return None
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.pad_token_id is None:
        raise PatchgenError("PG812", Location(name), "its tokenizer has no token to pad with")
    return tokenizer
