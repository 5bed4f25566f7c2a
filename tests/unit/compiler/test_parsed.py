"""A text that is read part by part says what the whole says."""

import ast
from pathlib import Path

import pytest

from patchgen.compiler.emit.parsed import parse_output, read_parts

TEXTS = {
    "clauses": "try:\n    import fast\nexcept ImportError:\n    fast = None\nelse:\n    x = 1\n",
    "decorators": "@one\n# between\n@two(\n    3\n)\ndef f(): ...\n\n\n@three\nclass A: ...\n",
    "comments at the margin": "class A:\n    x = 1\n# of y\n    y = 2\n\n# of B\nclass B: ...\n",
    "brackets": "x = [\n    1\n]\ny = {\n}\n",
    "lines of a string": 'x = """\nimport torch\n"""\ny = 1\n',
    "a continued line": "x = \\\n1\ny = \\\n\\\n2\n",
    "a form feed": "x = 1\n\x0cy = 2\n\x0c\nz = 3\n",
    "one line for two": "x = 1; y = 2\nz = 3",
    "comments alone": "# nothing\n",
    "nothing": "",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_parts_are_the_whole(text: str) -> None:
    parts = list(read_parts(text))
    own = [(part.locate(node.lineno), ast.dump(node)) for part in parts for node in part.tree.body]
    assert own == [(node.lineno, ast.dump(node)) for node in ast.parse(text).body]


def test_outputs_are_read_statement_by_statement() -> None:
    text = Path("generated/mpnet/modeling_mpnet_sdpa_checkpoint.py").read_text()
    parts = parse_output(text).parts
    assert [ast.dump(node) for part in parts for node in part.tree.body] == [
        ast.dump(node) for node in ast.parse(text).body
    ]
    assert {len(part.tree.body) for part in parts} == {1}


@pytest.mark.parametrize("text", ["x = (\n", "x = 1\nelse:\n    y = 2\n", "x = 1\n  y = 2\n"])
def test_what_is_not_python_is_refused(text: str) -> None:
    with pytest.raises(SyntaxError):
        parse_output(text)
