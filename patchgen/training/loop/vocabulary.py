"""Provides the tokenizer: that of the checkpoint, or one that is trained on the text.

A trained tokenizer is a byte-level BPE, which encodes every text and decodes it unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.loop.switches import refuse

# In the order of their ids.  `<s>` and `</s>` are also BERT's class and separator tokens.
SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>"}
BYTES = 256


def train_tokenizer(texts: Iterable[str], size: int) -> Any:
    """Train a tokenizer of at most `size` tokens that adds `<s>` before a passage and `</s>` after
    it.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    if size < BYTES + len(SPECIAL):
        least = BYTES + len(SPECIAL)
        refuse(
            "vocabulary", size, f"every byte and {len(SPECIAL)} special tokens are {least} already"
        )
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL.values()),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    first, last = SPECIAL["bos_token"], SPECIAL["eos_token"]
    around = [(token, made.token_to_id(token)) for token in (first, last)]
    made.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}", special_tokens=around
    )
    again = {"cls_token": first, "sep_token": last}
    inputs = ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=made, **SPECIAL, **again, model_input_names=inputs
    )


def load_tokenizer(folder: str | Path) -> Any | None:
    """Return the tokenizer of a checkpoint; None where it has none."""
    try:
        found = AutoTokenizer.from_pretrained(folder)
    except (
        OSError,
        ValueError,
        KeyError,
    ):  # what transformers raises where files are absent, or it knows no class
        return None
    if len(found) < 2:  # made of nothing but a name, without a vocabulary
        return None
    if found.pad_token_id is None:
        found.pad_token = found.eos_token
    if found.pad_token_id is None:
        raise PatchgenError(
            "PG812", Location(str(folder)), "its tokenizer has no token to pad with"
        )
    return found
