"""The small decisions of planning: scopes, kinds, prefixes and orders of bases."""

from __future__ import annotations

import pytest

from patchgen.compiler.plan.bindings import Everywhere, FlattenScope
from patchgen.compiler.plan.lineage import c3
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.prefixes import (
    agree,
    derive,
    kind_of_class,
    kind_of_module,
    model_prefix,
    output_name,
)


@pytest.mark.parametrize(
    ("module", "flattened", "own"),
    [
        ("transformers.models.llama.modeling_llama", True, False),
        ("patchgen.parts.loss", True, False),
        ("mine.models.base", True, True),
        ("named.too", True, True),
        ("transformers.activations", False, False),
        ("torch.nn", False, False),
        ("minestrone", False, False),
    ],
)
def test_what_is_flattened(module: str, flattened: bool, own: bool) -> None:
    scope = FlattenScope("mine", ("named",))
    assert (scope.flattens(module), scope.is_own(module)) == (flattened, own)


def test_a_file_inside_transformers_flattens_only_the_models() -> None:
    assert not FlattenScope("transformers").flattens("transformers.activations")


def test_re_exports_and_bases() -> None:
    scope = FlattenScope("mine")
    assert scope.looks_into("transformers") and not scope.looks_into("torch")
    assert scope.knows_bases_of("transformers.modeling_utils")
    assert not scope.knows_bases_of("torch.nn") and Everywhere("").knows_bases_of("torch.nn")


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
    ],
)
def test_prefixes(new: str, parent: str, model: str, old: str, prefix: str) -> None:
    found = derive(new, parent, model)
    assert found is not None
    assert (found.olds, found.new) == ((old,), prefix)


def test_names_without_a_common_ending_have_no_prefix() -> None:
    assert derive("Gate", "LlamaMLP", "Llama") is None


def test_the_prefix_of_a_model() -> None:
    assert model_prefix("gpt2", ["Conv1D", "GPT2Model"]) == "GPT2"
    assert model_prefix("llama", ["Conv1D"]) == ""


def test_the_prefix_that_most_pairs_show_counts() -> None:
    gemma, other = derive("GemmaMLP", "LlamaMLP", "Llama"), derive("OtherMLP", "LlamaMLP", "Llama")
    assert gemma is not None and other is not None
    assert agree([]) is None
    assert agree([gemma]) == gemma
    assert agree([gemma, other, gemma]) == gemma
    assert agree([gemma, other]) is None


def symbols(text: str) -> tuple[Symbol, ...]:
    return tuple(Symbol("m", name) for name in text.split())


def test_the_merge_of_orders_is_that_of_python() -> None:
    assert c3([symbols("B A"), symbols("C A"), symbols("B C")]) == symbols("B C A")
    assert c3([symbols("A B"), symbols("B A")]) is None
