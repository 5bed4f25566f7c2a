"""A text that is read part by part says what the whole says."""

import ast

import pytest

from patchgen.compiler.emit.parsed import read_parts

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
