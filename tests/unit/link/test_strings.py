"""Which strings and annotations are about a class's name, and how words of a text are replaced."""

import ast

import pytest

from patchgen.compiler.link.strings import (
    TextChange,
    apply_changes,
    find_words,
    quote_own_name,
    rename_in_text,
    rename_words,
)
from patchgen.compiler.plan.model import Edit


def renamed(text: str) -> str:
    """`text` with `ToyMLP` as `FastMLP` wherever a string or a comment surely names the class."""
    changes = rename_in_text(text, ast.parse(text), {"ToyMLP": "FastMLP"}, (), with_prose=True)
    lines = [line.encode() for line in text.split("\n")]
    for change in sorted(changes, key=lambda each: (each.line, each.start), reverse=True):
        line = lines[change.line - 1]
        lines[change.line - 1] = line[: change.start] + change.new.encode() + line[change.end :]
    return b"\n".join(lines).decode()


@pytest.mark.parametrize(
    "text",
    [
        '"""A ToyMLP."""',
        '_no_split_modules = ["ToyMLP"]',
        'def f(x: "ToyMLP"): pass',
        'logger.warning("ToyMLP is old")',
        'if type(x).__name__ == "ToyMLP": pass',
        'name = type(x).__name__\nif name == "ToyMLP": pass',
        "x = 1  # as ToyMLP does",
        "# é ToyMLP",
    ],
)
def test_what_names_the_class_is_renamed(text):
    assert renamed(text) == text.replace("ToyMLP", "FastMLP")


@pytest.mark.parametrize(
    "text",
    ['weights.get("ToyMLP")', 'raise ValueError("ToyMLP")', 'x = "ToyMLP"', '"""ToyMLPs"""'],
)
def test_noop_what_may_be_data(text):
    assert renamed(text) == text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(self, x: A): pass", 'def f(self, x: "A"): pass'),
        ("def f(self) -> list[A]: pass", 'def f(self) -> "list[A]": pass'),
        ("x: A = None", 'x: "A" = None'),
        ("def f(self, x: 'A'): pass", "def f(self, x: 'A'): pass"),
        ("def f(self, x: B): return A", "def f(self, x: B): return A"),
    ],
)
def test_annotations_that_name_the_class_itself_are_quoted(before, after):
    head = "class A:\n    "
    assert quote_own_name(head + before, "A") == head + after


def test_columns_are_bytes_before_and_characters_after():
    line = 'name = "größe", MLP(x), MLP'
    first, second = (
        len(line[:place].encode()) for place in (line.index("MLP"), line.rindex("MLP"))
    )
    changes = {TextChange(1, first, first + 3, "TinyMLP"), TextChange(1, second, second + 3, "A")}
    text, edits = apply_changes([line, "untouched"], changes)
    assert text == 'name = "größe", TinyMLP(x), A\nuntouched'
    assert edits == (
        Edit(1, line.index("MLP"), "MLP", "TinyMLP"),
        Edit(1, line.rindex("MLP"), "MLP", "A"),
    )


def test_words_are_whole_and_stand_in_strings_or_comments():
    text = 'LlamaMLP = """a\nö LlamaMLP LlamaMLPs"""  # LlamaMLP, x.LlamaMLP\n'
    found = [(line, at, *rest) for line, at, _, *rest in find_words(text, ["LlamaMLP"])]
    assert found == [(2, 3, False), (2, len('ö LlamaMLP LlamaMLPs"""  # '.encode()), True)]


def test_the_longest_name_is_renamed():
    renamed = {"Llama": "Tiny", "LlamaMLP": "TinyFeedForward"}
    assert rename_words("# LlamaMLP of Llama", renamed) == "# TinyFeedForward of Tiny"
