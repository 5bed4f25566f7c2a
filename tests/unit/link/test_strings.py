"""Which strings and annotations are about a class's name, and how words of a text are replaced."""

import ast

import pytest

from patchgen.compiler.link.strings import (
    quote_own_name,
    rename_in_text,
    rename_words,
)


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


def test_the_longest_name_is_renamed():
    renamed = {"Llama": "Tiny", "LlamaMLP": "TinyFeedForward"}
    assert rename_words("# LlamaMLP of Llama", renamed) == "# TinyFeedForward of Tiny"
