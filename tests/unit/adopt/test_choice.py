"""Which base each class of a draft is derived from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from patchgen.author.adopt.choice import Classes, Option

A, B = "toy.modeling_toy", "gala.modeling_gala"
WHOLE = Option(20)
# The options of each class, its readers, what has to be declared; what is chosen and brought.
CASES: dict[
    str,
    tuple[
        Mapping[str, Sequence[Option]],
        Mapping[str, Sequence[str]],
        set[str],
        list[Option],
        set[str],
    ],
] = {
    "the shortest": (
        {"Layer": [Option(3, A, "ToyLayer"), Option(5, B, "GalaLayer"), WHOLE]},
        {"Layer": []},
        set(),
        [Option(3, A, "ToyLayer")],
        set(),
    ),
    "an import is a line": (
        {"Layer": [Option(3, A, "ToyLayer"), Option(3)]},
        {"Layer": []},
        set(),
        [Option(3)],
        set(),
    ),
    "no import for nothing": (
        {
            "Layer": [Option(3, A, "ToyLayer"), Option(3, B, "GalaLayer"), WHOLE],
            "Model": [Option(3, B, "GalaModel"), WHOLE],
            "Head": [Option(3, A, "ToyHead"), Option(3, B, "GalaHead"), WHOLE],
        },
        {"Layer": [], "Model": [], "Head": []},
        set(),
        [Option(3, B, "GalaLayer"), Option(3, B, "GalaModel"), Option(3, B, "GalaHead")],
        set(),
    ),
    "what a reader brings is not declared": (
        {
            "Layer": [Option(2, A, "ToyLayer", is_same=True), WHOLE],
            "Model": [Option(4, A, "ToyModel"), WHOLE],
        },
        {"Layer": ["Model"], "Model": []},
        set(),
        [Option(2, A, "ToyLayer", is_same=True), Option(4, A, "ToyModel")],
        {"Layer"},
    ),
    "what is read by what is written is declared": (
        {
            "Layer": [Option(2, A, "ToyLayer", is_same=True), WHOLE],
            "Model": [Option(4, A, "ToyModel"), WHOLE],
        },
        {"Layer": ["Model"], "Model": []},
        {"Layer"},
        [Option(2, A, "ToyLayer", is_same=True), Option(4, A, "ToyModel")],
        set(),
    ),
    "of two that read each other, one is declared": (
        {
            "Model": [Option(2, A, "ToyModel", is_same=True), WHOLE],
            "Base": [Option(2, A, "ToyBase", is_same=True), WHOLE],
        },
        {"Model": ["Base"], "Base": ["Model"]},
        set(),
        [Option(2, A, "ToyModel", is_same=True), Option(2, A, "ToyBase", is_same=True)],
        {"Model"},
    ),
    # The model is a line longer over the file that has the layer too.
    "a reader whose file has the same is worth a line": (
        {
            "Layer": [Option(2, A, "ToyLayer", is_same=True), WHOLE],
            "Model": [Option(4, B, "GalaModel"), Option(5, A, "ToyModel"), WHOLE],
        },
        {"Layer": ["Model"], "Model": []},
        set(),
        [Option(2, A, "ToyLayer", is_same=True), Option(5, A, "ToyModel")],
        {"Layer"},
    ),
}


@pytest.mark.parametrize("options, readers, declared, wanted, brought", CASES.values(), ids=CASES)
def test_choice(
    options: Mapping[str, Sequence[Option]],
    readers: Mapping[str, Sequence[str]],
    declared: set[str],
    wanted: list[Option],
    brought: set[str],
) -> None:
    classes = Classes(options, readers, frozenset(declared))
    chosen = classes.choose()
    assert [*chosen.values()] == wanted
    assert classes.brought(chosen) == brought


def test_a_class_that_makes_an_import_too_long_for_a_line_is_written_whole() -> None:
    names = ["NovaNebula" + letter * 20 for letter in "abc"]
    options = {name: [Option(3, A, name), Option(6)] for name in names}
    classes = Classes(options, {name: [] for name in names}, frozenset())
    assert [one.lines for one in classes.choose().values()].count(6) == 1
