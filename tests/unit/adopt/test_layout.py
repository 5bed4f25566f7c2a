"""How many lines a piece of a draft takes."""

from __future__ import annotations

import pytest

from patchgen.author.adopt.layout import bracketed, code_length

TEXTS = {
    "code": ("a = 1\nb = 2\n", 2),
    "blank lines and comments": ("a = 1\n\n# b = 2\n", 1),
    "a docstring of one line": ('def f():\n    """F."""\n    return 1\n', 2),
    "a docstring of several lines": ('def f():\n    r"""F.\n\n    G.\n    """\n    return 1\n', 2),
    "a string that is an argument": (
        '@doc(\n    intro="""\n    # F.\n    """\n)\nclass A: ...\n',
        6,
    ),
}


@pytest.mark.parametrize("text, lines", TEXTS.values(), ids=TEXTS)
def test_code_length(text: str, lines: int) -> None:
    assert code_length(text.split("\n")) == lines


@pytest.mark.parametrize("length, lines", [(10, 1), (30, 3), (60, 5)])
def test_a_call_is_broken_as_the_formatter_breaks_it(length: int, lines: int) -> None:
    items = ["x" * length, "y" * length, "z" * length]
    made = bracketed(8, "super().__init__(", items, ")")
    assert len(made) == lines
    compile(f"def f(x):\n{chr(10).join(made)}", "made", "exec")
