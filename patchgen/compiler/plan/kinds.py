"""Which output file a class belongs to: modeling, configuration, processing and so on.

class TinyMLP(llama.LlamaMLP)       modeling_tiny.py, as its parent stands in modeling_llama.py
class TinyConfig(LlamaConfig)       configuration_tiny.py
class TinyTokenizer                 tokenization_tiny.py, by the end of its name
"""

from __future__ import annotations

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
    found = [ending for ending in _ENDINGS if name.endswith(ending)]
    if not found:
        return MODELING
    # `ImageProcessor` ends with `Processor` too.
    longest = max(found, key=len)
    return _ENDINGS[longest]


def output_name(modular_file: str, kind: str) -> str:
    """`modular_llama_loss.py` gives `modeling_llama_loss.py`."""
    return modular_file.replace("modular_", f"{kind}_", 1)
