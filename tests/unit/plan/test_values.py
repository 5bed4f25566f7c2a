"""The small decisions of planning: scopes, kinds, prefixes and orders of bases."""

from __future__ import annotations

import pytest

from patchgen.compiler.plan.prefixes import (
    derive,
    kind_of_class,
    kind_of_module,
    output_name,
)


def test_kinds() -> None:
    assert kind_of_module("a.image_processing_pil_b") == "image_processing_pil"
    assert kind_of_module("a.utils") is None
    assert kind_of_class("ToyImageProcessorPil") == "image_processing_pil"
    assert kind_of_class("ToyMLP") == "modeling"
    assert output_name("modular_toy.py", "configuration") == "configuration_toy.py"


@pytest.mark.parametrize(
    ("new", "parent", "model", "old", "prefix"),
    [
        ("GemmaMLP", "LlamaMLP", "Llama", "Llama", "Gemma"),
        ("EsmcLayer", "LlamaDecoderLayer", "Llama", "Llama", "Esmc"),
        ("GemmaMLP", "LlamaMLP", "", "Llama", "Gemma"),
        ("TinyModel", "Toy2_5_Model", "Toy2_5", "Toy2_5_", "Tiny"),
    ],
)
def test_prefixes(new: str, parent: str, model: str, old: str, prefix: str) -> None:
    found = derive(new, parent, model)
    assert found is not None
    assert (found.olds[0], found.new) == (old, prefix)
