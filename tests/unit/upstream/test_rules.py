"""Kinds, prefixes, tokens, facts and uses: each rule by its smallest case, with the shipped file that shows it."""

import pytest

from patchgen.syntax.errors import PatchgenError
from patchgen.upstream.facts import read_facts
from patchgen.upstream.imports import make_named_text, used_names
from patchgen.upstream.names import choose, kind_of, prefix_of, without_collision
from patchgen.upstream.tokens import words


@pytest.mark.parametrize(
    ("name", "cased", "kind"),
    [
        ("LlamaModel", "Llama", "modeling"),
        ("LlamaConfig", "Llama", "configuration"),
        ("Sam2VideoVideoProcessor", "Sam2Video", "video_processing"),
        pytest.param(
            "Sam2VideoProcessor", "Sam2Video", "processing", id="the model's name is deleted first"
        ),
        pytest.param("XImageProcessorPil", "X", "image_processing_pil", id="the longest suffix"),
        pytest.param(
            "Gemma4UnifiedVideoProcessorKwargs", "Gemma4Unified", "video_processing", id="5.23"
        ),
    ],
)
def test_kind_of(name, cased, kind):
    assert kind_of(name, cased) == kind


@pytest.mark.parametrize(
    ("name", "parent", "prefix"),
    [
        ("ZNewModel", "OldModel", "ZNew"),
        pytest.param("ZNewTextModel", "OldModel", "ZNewText", id="a special prefix (dots3_note)"),
        pytest.param("ZNewMold", "Old", "ZNew", id="no suffix that begins with a capital"),
        pytest.param(
            "ZNewOldThing", "OldThing", "ZNewOld", id="the parent's whole name behind the model's"
        ),
        pytest.param("ZNewRMSNorm", "OldRMSNorm", "ZNew", id="acronym"),
    ],
)
def test_prefix_of(name, parent, prefix):
    assert prefix_of(name, parent, "ZNew", "Old") == prefix


def test_prefix_where_both_models_end_alike():
    # conditional_detr: the common suffix eats into the model's name.
    assert (
        prefix_of("ConditionalDETRModel", "DETRModel", "ConditionalDETR", "DETR")
        == "ConditionalDETR"
    )


def test_choice_of_a_prefix():
    assert choose(["A", "B", "B"], "C") == "B"
    assert choose(["A", "C"], "C") == "C"
    assert choose(["A", "B"], "C") == "B"
    assert choose([], "C") == "C"


def test_collision_with_a_class_of_the_parent():
    # janus: its vision classes derive from those of a parent that has vision classes itself.
    assert without_collision("ZNewVision", "ZNew", "Old", "\nclass OldVisionModel:\n") == "ZNew"
    assert without_collision("ZNewVision", "ZNew", "Old", "\nclass OldModel:\n") == "ZNewVision"


def test_words():
    found = words(
        'x.attr(key=f"text {inside.deep}", other == value)  # no\n"string"\nrb"bytes"\n1e5\n'
    )
    assert found.all == {"x", "attr", "key", "inside", "deep", "other", "value"}
    assert found.read == {"x", "inside", "other", "value"}


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


def test_facts():
    facts = read_facts(FACTS, "models/z/modular_z.py")
    assert facts.header == "# licence\n\n"
    assert list(facts.blocks) == ["TABLE", "TABLE['x']", "A", "f"]
    assert facts.blocks["A"].text == "class A: pass\n"
    assert facts.followers == {"TABLE": ("TABLE['x']",)}
    assert [(one.name, one.module) for one in facts.model_imports] == [
        ("LlamaModel", ("llama", "modeling_llama")),
        ("rotate_half", ("llama", "modeling_llama")),
    ]
    assert [one.text.split()[1] for one in facts.imports] == [
        "...utils",
        "..auto.modeling_auto",
        ".configuration_z",
    ] + ["is_torch_available():"]
    assert facts.imports[0].leading == "\n"
    assert facts.siblings == ("ZConfig",)


def test_a_comment_at_the_end_of_a_class_is_part_of_it():
    text = "class A:\n    x = 1\n    # below\n# above\nclass B: pass\n"
    blocks = read_facts(text, "m.py").blocks
    assert blocks["A"].text == "class A:\n    x = 1\n    # below\n"
    assert blocks["B"].leading == "# above\n"


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


def test_uses_in_quoted_annotations():
    piece = make_named_text('def f(x: "torch.Tensor | Image") -> list["Other"]:\n    pass\n')
    assert used_names([piece], {"torch", "Image", "Other", "Tensor"}) == {"torch", "Image", "Other"}
