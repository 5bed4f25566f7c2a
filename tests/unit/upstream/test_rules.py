"""Kinds, prefixes, tokens, facts and uses: each rule by its smallest case, with the shipped file that shows it."""

import pytest

from patchgen.syntax.errors import PatchgenError
from patchgen.upstream.facts import read_facts
from patchgen.upstream.imports import make_named_text, used_names

FACTS = '''\
# licence

"""Docstring."""

from ...utils import logging
from ..llama.modeling_llama import LlamaModel, rotate_half as turn
from ..auto.modeling_auto import AutoModel
from .configuration_z import ZConfig
if is_torch_available():
    import torch
try:
    import lost
except ImportError:
    pass
lost: int = 1
print("lost")
TABLE = {}
TABLE["x"] = 1
# above
@decorated
class A(nn.Module, LlamaModel):
    pass
    # below

def f(): pass
class A: pass
__all__ = ["A"]
'''


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(FACTS, id="everything"),
        pytest.param(
            'X = 1\nclass A:\n    """\nclass B:\n    """\n\n\n# above\ndef f(): pass',
            id="class in a docstring",
        ),
        pytest.param(
            "@a\n@b(\n    1,\n)\nclass A(\n    B,\n):\n    pass\n    # below\n\nx = 1\n",
            id="decorators, bases",
        ),
        pytest.param("def f(\na,\nb): return 1\nclass A: pass\n", id="not formatted"),
        pytest.param("async def f():\n    pass\n\n\n@x\nasync def g(): pass\n", id="async"),
    ],
)
def test_a_parent_reads_like_a_modular_file(text):
    # Of a parent, the insides of classes and functions are not parsed.
    def findings_of(path):
        facts = read_facts(text, path)
        return (
            facts.header,
            facts.imports,
            [
                (one.name, one.leading, one.text, one.line, one.first_line)
                for one in facts.blocks.values()
            ],
        )

    assert findings_of("models/z/modeling_z.py") == findings_of("models/z/modular_z.py")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("from ..llama.modeling_llama import LlamaConfig\n", "PG601"),
        ("from transformers import LlamaModel\n", "PG602"),
        ("class A(:\n", "PG006"),
    ],
)
def test_facts_of_wrong_files(text, code):
    with pytest.raises(PatchgenError) as caught:
        read_facts(text, "models/z/modular_z.py")
    assert caught.value.problem.code == code
    assert caught.value.problem.at.line == 1


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("pad(x)", True),
        pytest.param("x.pad(pad=1)", False, id="attribute and keyword"),
        pytest.param("def f(pad):\n    return pad\n", False, id="parameter"),
        pytest.param(
            "def f(pad):\n    return pad\ndef g():\n    return pad\n",
            True,
            id="parameter of another function",
        ),
        pytest.param(
            "class A:\n    def pad(self):\n        return pad(1)\n", True, id="method of that name"
        ),
        pytest.param('"pad"', False, id="string"),
        pytest.param("# pad", False, id="comment"),
        pytest.param('f"{pad}"', True, id="f-string"),
    ],
)
def test_uses_of_a_function(text, used):
    assert used_names([make_named_text(text)], {"pad"}) == ({"pad"} if used else set())
