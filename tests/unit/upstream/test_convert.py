"""Whole conversions of small trees that lie in memory: what is brought, in which order, and what is refused."""

import re
from pathlib import Path

import pytest

from patchgen.syntax.errors import PatchgenError
from patchgen.upstream.convert import convert

MODELS = Path("/tree/transformers/models")
AUTO = {
    "auto/auto_mappings.py": 'CONFIG_MAPPING_NAMES = OrderedDict([("zpar", "ZparConfig"), ("znew", "ZnewConfig")])\n',
    "auto/configuration_auto.py": "",
}
ZPAR = """\
from torch import nn
from ...activations import ACT2FN
from .configuration_zpar import ZparConfig

ZPAR_CONST = 1

def helper(x):
    return x + ZPAR_CONST

def inner(x):
    return helper(x)

class ZparMLP(nn.Module):
    def __init__(self, config: ZparConfig):
        super().__init__()
        self.act = ACT2FN[config.act]

    def forward(self, x):
        return inner(x)

class ZparModel(nn.Module):
    def __init__(self):
        self.mlp = ZparMLP()
"""


def outputs(modular, **parents):
    files = AUTO | {
        f"{name}/modeling_{name}.py": text for name, text in ({"zpar": ZPAR} | parents).items()
    }
    files["znew/modular_znew.py"] = modular
    texts = {MODELS / name: text for name, text in files.items()}
    return {
        output.kind: output.text for output in convert(MODELS / "znew/modular_znew.py", texts.get)
    }


def defined(text):
    return re.findall(r"^(?:class |def )?(\w+)(?:\(.*| = .*|:)$", text, re.MULTILINE)


def test_noop_parent_by_the_folder_that_holds_the_package():
    modular = "from {}zpar.modeling_zpar import ZparMLP\n\nclass ZnewMLP(ZparMLP):\n    pass\n"
    assert outputs(modular.format("....transformers.models.")) == outputs(modular.format(".."))


def test_overridden_functions_come_after_the_parents_own():
    modular = (
        "from ..zpar.modeling_zpar import ZparMLP\n\ndef extra(x):\n    return x\n\n"
        "def helper(x):\n    return extra(x)\n\nclass ZnewMLP(ZparMLP):\n    pass\n"
    )
    assert defined(outputs(modular)["modeling"]) == ["inner", "extra", "helper", "ZnewMLP"]


def test_classes_that_a_class_needs_come_with_what_they_need():
    given = outputs(
        "from ..zpar.modeling_zpar import ZparModel\nclass ZnewModel(ZparModel):\n    pass\n"
    )
    assert defined(given["modeling"]) == ["ZNEW_CONST", "helper", "inner", "ZnewMLP", "ZnewModel"]


def test_imports_of_a_special_prefix_go_back_to_the_models_own_file():
    # emu3: the classes are Emu3Text..., the file is configuration_emu3.
    given = outputs(
        "from ..zpar.modeling_zpar import ZparMLP\nclass ZnewTextMLP(ZparMLP):\n    pass\n"
    )
    assert "from .configuration_znew import ZnewTextConfig\n" in given["modeling"]


def test_imported_functions_take_the_place_of_those_of_other_parents():
    modular = (
        "from ..zpar.modeling_zpar import ZparMLP\nfrom ..zzz.modeling_zzz import inner\n"
        "class ZnewMLP(ZparMLP):\n    pass\n"
    )
    text = outputs(
        modular, zzz="def deep(x):\n    return x\n\ndef inner(x):\n    return deep(x)\n"
    )["modeling"]
    assert defined(text) == ["inner", "deep", "ZnewMLP"]
    assert "ZNEW_CONST" not in text


def test_kinds_import_from_each_other():
    modular = (
        "from ..zpar.modeling_zpar import inner\nclass ZnewThing:\n    config: ZnewConfig\n"
        'class ZnewConfig:\n    pass\n__all__ = ["ZnewConfig", "ZnewThing"]\n'
    )
    given = outputs(modular)
    assert sorted(given) == ["configuration", "modeling"]
    assert "from .configuration_znew import ZnewConfig\n" in given["modeling"]
    assert given["configuration"].endswith("__all__ = ['ZnewConfig']\n")


@pytest.mark.parametrize(
    ("modular", "code", "place"),
    [
        ("from ..zpar.modeling_zpaar import A\n", "PG603", (1, 1)),
        ("from ..zpar.modeling_zpar import nn\nclass A(nn):\n    pass\n", "PG604", (2, 1)),
        (
            "from ..zpar.modeling_zpar import ZparMLP, ZparModel\nclass A(ZparMLP, ZparModel):\n    pass\n",
            "PG605",
            (2, 1),
        ),
        (
            "from ..zpar.modeling_zpar import ZparMLP\nclass A(ZparMLP):\n    x = AttributeError()\n",
            "PG621",
            (3, 5),
        ),
    ],
)
def test_refusals(modular, code, place):
    with pytest.raises(PatchgenError) as caught:
        outputs(modular)
    problem = caught.value.problem
    assert (problem.code, (problem.at.line, problem.at.column)) == (code, place)
    assert problem.at.path.endswith("modular_znew.py")
