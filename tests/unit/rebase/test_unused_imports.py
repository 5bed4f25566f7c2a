"""Imports that only a rewritten declaration has used go with it; all others stay."""

from __future__ import annotations

import ast

import pytest

from patchgen.author.rebase.unused_imports import without_unused_imports

CASES = {
    "a statement": ("import math\nimport torch\n", "math", "import torch\n"),
    "a group": ("import math\n\nimport torch\n", "torch", "import math\n"),
    "one name of several": ("from a import b, c\n", "c", "from a import b\n"),
    "several lines": ("from a import (\n    b,  # for x\n    c,\n)\n", "b", "from a import c\n"),
}
SAME = {
    "an annotation": "x: 'a.b' = 1\n",
    "a list of exports": "__all__ = ['a']\n",
    "another statement": "x = a.b\n",
}


@pytest.mark.parametrize("case", CASES)
def test_what_nothing_uses_any_more(case: str) -> None:
    before, used, after = CASES[case]
    tree = ast.parse(f"{before}\n\nx = {used}\n")
    assert without_unused_imports(f"{before}\n\nx = 1\n", tree) == f"{after}\n\nx = 1\n"


@pytest.mark.parametrize("case", SAME)
def test_noop_still_used(case: str) -> None:
    text = f"import a\n\n\n{SAME[case]}"
    assert without_unused_imports(text, ast.parse("import a\n\nx = a\n")) == text


@pytest.mark.parametrize("line", ["import a", "from __future__ import annotations"])
def test_noop_never_used(line: str) -> None:
    text = f'{line}\n\n"""a"""\nx = 1\n'
    assert without_unused_imports(text, ast.parse(text)) == text
