"""A tokenizer made here: a word is a number."""

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast

from patchgen.facts.sizes import SIZES

SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}


def word_tokenizer() -> PreTrainedTokenizerFast:
    """As many words as a tiny model knows."""
    words = [*SPECIAL.values(), *map(str, range(len(SPECIAL), SIZES["vocab_size"]))]
    made = Tokenizer(WordLevel({word: at for at, word in enumerate(words)}, unk_token="<pad>"))
    made.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, **SPECIAL)
