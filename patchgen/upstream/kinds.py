"""Decide by the end of a class name into which kind of file the class goes.

In: a class name and the cased name of the model.  Out: a kind, with which the output's file name
begins.
"""

from __future__ import annotations

import re

KINDS = (
    "modeling",
    "configuration",
    "tokenization",
    "processing",
    "image_processing_pil",
    "image_processing",
    "video_processing",
    "feature_extraction",
)
_KIND_OF_SUFFIX = {
    "Config": "configuration",
    "Tokenizer": "tokenization",
    "Processor": "processing",
    "ImageProcessor": "image_processing",
    "ImageProcessorPil": "image_processing_pil",
    "ImageProcessorKwargs": "image_processing",
    "VideoProcessor": "video_processing",
    "VideoProcessorKwargs": "video_processing",
    "VideoProcessorInitKwargs": "video_processing",
    "FeatureExtractor": "feature_extraction",
    "ProcessorKwargs": "processing",
    "VideosKwargs": "processing",
    "ImagesKwargs": "processing",
    "TextKwargs": "processing",
}
# The left-most match is the longest suffix.
_SUFFIX = re.compile(f"({'|'.join(_KIND_OF_SUFFIX)})$")
_KIND_OF_FILE = re.compile(f"({'|'.join(KINDS)})_")


def kind_of(name: str, cased: str) -> str:
    """The kind of class `name` of model `cased`.

    `Sam2VideoProcessor` of Sam2Video is a processor, not of videos.
    """
    # The model's own name may end as a kind does.
    match = _SUFFIX.search(name.replace(cased, ""))
    return _KIND_OF_SUFFIX[match[1]] if match else "modeling"


def kind_of_file(stem: str) -> str:
    """The kind that a file's name begins with; empty for `modular_x` and everything else."""
    match = _KIND_OF_FILE.match(stem)
    return match[1] if match else ""
