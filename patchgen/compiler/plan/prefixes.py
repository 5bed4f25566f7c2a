"""Which output file a class belongs to: modeling, configuration, processing and so on.

class TinyMLP(llama.LlamaMLP)       modeling_tiny.py, as its parent stands in modeling_llama.py
class TinyConfig(LlamaConfig)       configuration_tiny.py
class TinyTokenizer                 tokenization_tiny.py, by the end of its name
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MODELING = "modeling"
# The longest first: `image_processing_pil_x` is not an `image_processing` file of a model `pil_x`.
KINDS = (
    "image_processing_pil",
    "image_processing",
    "video_processing",
    "feature_extraction",
    "configuration",
    "tokenization",
    "processing",
    MODELING,
)
# The kind of a class without a parent follows from the end of its name; the longest counts.
_ENDINGS = {
    "Config": "configuration",
    "Tokenizer": "tokenization",
    "Processor": "processing",
    "ProcessorKwargs": "processing",
    "ImageProcessor": "image_processing",
    "ImageProcessorKwargs": "image_processing",
    "ImageProcessorPil": "image_processing_pil",
    "VideoProcessor": "video_processing",
    "VideoProcessorKwargs": "video_processing",
    "FeatureExtractor": "feature_extraction",
}


def kind_of_module(module: str) -> str | None:
    """The kind of the file `module`, or None when its name does not say."""
    name = module.rpartition(".")[2]
    for kind in KINDS:
        if name.startswith(f"{kind}_"):
            return kind
    return None


def kind_of_class(name: str) -> str:
    """The kind of a class without a parent, by the end of its name."""
    endings = list(filter(name.endswith, _ENDINGS))
    if not endings:
        return MODELING
    # `ImageProcessor` ends with `Processor` too.
    longest = max(endings, key=len)
    return _ENDINGS[longest]


def output_name(modular_file: str, kind: str) -> str:
    """`modular_llama_loss.py` gives `modeling_llama_loss.py`."""
    return modular_file.replace("modular_", f"{kind}_", 1)


@dataclass(frozen=True, slots=True)
class Prefix:
    """`new` replaces any of `olds` at the start of a class name; `why` is the pair that shows it.

    A model may have several old ones: mamba2 has `Mamba2Mixer` and `MambaRMSNormGated`.
    """

    olds: tuple[str, ...]
    new: str
    why: tuple[str, str]

    def apply(self, name: str) -> str:
        """`name` with the new prefix; names that begin with no old one keep theirs."""
        for old in self.olds:
            if old and name.startswith(old):
                return self.new + name[len(old) :]
        return name

    def __str__(self) -> str:
        return f"{' or '.join(self.olds)} -> {self.new}"


def model_prefix(folder: str, classes: Iterable[str]) -> str:
    """The prefix of a model's class names that spells the folder's name: `gpt2` gives `GPT2`.

    The empty string where no class name begins so.
    """
    wanted = folder.replace("_", "").lower()
    for name in classes:
        # `gpt2` and `GPT2`, `t5_gemma` and `T5Gemma`: case and underscores do not count.
        for end in range(1, len(name) + 1):
            if name[:end].replace("_", "").lower() == wanted:
                return name[:end]
    return ""


def derive(new: str, parent: str, model: str) -> Prefix | None:
    """The prefix that the pair `class new(parent)` shows; None when the names share no ending.

    `model` is the prefix of the parent's model where it is known.

        GemmaMLP(LlamaMLP)              Llama -> Gemma
        EsmcLayer(LlamaDecoderLayer)    Llama -> Esmc, where Llama is known as the model
        Tiny(LlamaMLP)                  None
    """
    given = (new, parent)
    is_known = bool(model) and parent.startswith(model)
    # The known prefix tells where the rest of the name begins.
    if is_known:
        stem = parent.removeprefix(model)
        if stem and new.endswith(stem) and new != stem:
            return Prefix((model,), new.removesuffix(stem), given)
        # TinyModel(Exaone4_5_Model): the line belongs to the prefix.
        bare = stem.lstrip("_")
        if bare != stem and bare and new.endswith(bare) and new != bare:
            return Prefix((parent.removesuffix(bare), model), new.removesuffix(bare), given)
    suffix = _find_common_suffix(new, parent)
    # One name that is the end of the other leaves an empty prefix.
    if not suffix or suffix in given:
        return None
    # `EsmcLayer(LlamaDecoderLayer)` says what becomes of Llama, not of LlamaDecoder.
    old = model if is_known else parent.removesuffix(suffix)
    return Prefix((old,), new.removesuffix(suffix), given)


def agree(pairs: Sequence[Prefix]) -> Prefix | None:
    """The new prefix that most pairs of a parent module show.

    None where as many show another one: what is carried beside them then keeps its name.
    """
    shown = Counter(prefix.new for prefix in pairs)
    most = max(shown.values(), default=0)
    best = [new for new, count in shown.items() if count == most]
    if len(best) != 1:
        return None
    chosen = [prefix for prefix in pairs if prefix.new in best]
    olds: set[str] = set()
    for prefix in chosen:
        olds.update(prefix.olds)
    # The longest first: `Mamba2` before `Mamba`.
    longest_first = sorted(olds, key=lambda old: (-len(old), old))
    first = chosen[0]
    return Prefix(tuple(longest_first), first.new, first.why)


def _find_common_suffix(a: str, b: str) -> str:
    """The longest common ending that begins with a capital letter."""
    # A common ending is a common beginning of the reversed names.
    common = os.path.commonprefix([a[::-1], b[::-1]])[::-1]
    capital = re.search("[A-Z]", common)
    if capital is None:
        return ""
    return common[capital.start() :]
