"""Which tokens a text is made of: by the checkpoint's own tokenizer, or by one that is trained on the text.

What is trained is a byte-level BPE: every text has tokens, and the tokens give the text back.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from patchgen.errors import Location, PatchgenError
from patchgen.training.loop.switches import refuse

# In the order of their ids.  The first and last token of a passage are those that BERT calls so, too.
SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>"}
BYTES = 256


def train_tokenizer(texts: Iterable[str], size: int) -> Any:
    """A tokenizer of at most `size` tokens, which puts `<s>` before a passage and `</s>` behind it."""
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
    """The tokenizer that a checkpoint brings; None where it brings none."""
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
