"""The matrix: whatever a case is of, the parts of the variant are at work in it."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.author.declare.registry import find_part_checks
from patchgen.verifying.cases import select_cases
from patchgen.verifying.variants import Plan, Variant
from tests.gallery import BY_NAME


def planned(*parts, **how):
    variant = Variant("x", "x", "x", parts, ("XForCausalLM", "XModel"), ".")
    return {
        case.name.removeprefix("XForCausalLM "): case
        for case in select_cases(variant, find_part_checks(parts), Plan(**how))
    }


@pytest.mark.parametrize(
    "name",
    [
        "compiled by aot_eager",
        "compiled by inductor",
        "compiled by inductor, packed",
        "float32 autocast",
        "float32 autocast, padded",
    ],
)
def test_layers_are_checkpointed_where_that_is_what_the_part_is_for(name):
    checkpointed, plain = (
        planned("sdpa", "checkpoint", full=True)[name],
        planned("sdpa", full=True)[name],
    )
    assert (checkpointed.scenario.checkpointing, plain.scenario.checkpointing) == ({}, None)
    assert checkpointed.scenario.train and plain.scenario.train


def test_autocast_meets_a_mask():
    made = planned("sdpa")
    assert made["float32 autocast, padded"].scenario.rows == "right"
    assert all(
        made[name].scenario.autocast for name in ("float32 autocast", "float32 autocast, padded")
    )
    assert not [name for name in planned("sdpa", dtypes=("float32",)) if "autocast" in name]


def test_settings_of_several_values_have_cases():
    """Their names have braces."""
    variant = BY_NAME["dbrx_grouped"]
    made = select_cases(variant, find_part_checks(variant.checked_parts))
    assert any("={'" in case.name for case in made)


@pytest.mark.parametrize(
    ("part", "asked", "left_out"),
    [
        ("loss", "bfloat16 loss beside logits", "bfloat16 norms alone"),
        ("norm", "bfloat16 norms alone", "bfloat16 loss beside logits"),
        ("flash", "float64 packed by flash", "float64 right by flash"),
        ("sdpa", "work", "bfloat16 norms alone"),
        ("moe", "float64 of few logits", "work"),
        ("moe", "float64 trained long", "bfloat16 of many tokens"),
    ],
)
def test_a_part_says_which_cases_it_needs_and_which_say_nothing_of_it(part, asked, left_out):
    made = planned(part)
    assert asked in made and left_out not in made
