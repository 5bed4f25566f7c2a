"""What of a modular file nothing uses, and what is used though nothing seems to name it."""

import re

import pytest

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from tests.toytree import Tree

PARENT = """from .base import PreTrainedModel


def scale(x):
    return shift(x)


def shift(x):
    return x


def helper(x):
    return x


class ToyNorm:
    def forward(self, x):
        return scale(x)


class ToyLayer:
    norms = "ToyNorm"

    def forward(self, x):
        return ToyNorm().forward(x)


class ToyPreTrainedModel(PreTrainedModel):
    pass


class ToyForCausalLM(ToyPreTrainedModel):
    def forward(self, x):
        return ToyLayer().forward(x)


__all__ = ["ToyForCausalLM", "helper"]
"""
# A file that is read, and not flattened: it calls a method that it does not have.
BASE = """class PreTrainedModel:
    def generate(self):
        return getattr(self, "_reorder", None)
"""
OTHER = "def scale(x):\n    return -x\n"
IMPORT = "from toypack import modeling_toy as toy\n\n\n"
LAYER = "class ToyLayer(toy.ToyLayer):\n    def forward(self, x):\n        return super().forward(x), {}\n"
HEAD = "class ToyForCausalLM(toy.ToyForCausalLM):\n    pass\n"
TINY = "class TinyForCausalLM(toy.ToyForCausalLM):\n    pass\n"


def flattened(tmp_path, text, name="modular_toy_x.py"):
    tree = Tree(tmp_path)
    tree.write("toypack/__init__.py", "")
    tree.write("toypack/base.py", BASE)
    tree.write("toypack/modeling_toy.py", PARENT)
    tree.write("toypack/modeling_other.py", OTHER)
    path = tree.write(f"toypack/{name}", IMPORT + text)
    return flatten(path, make_environment(tmp_path, search=[]), Settings())


def problems_of(tmp_path, text, name="modular_toy_x.py"):
    """The findings about the modular file `text`, as "CODE LINE: MESSAGE"."""
    result = flattened(tmp_path, text, name)
    warnings = [warning for file in result.files for warning in file.warnings]
    assert {warning.severity for warning in warnings} <= {"warning"}
    return [f"{each.code} {each.what} | {each.hint}" for each in (*result.problems, *warnings)]


def child(name, parent, method="forward"):
    return f"class {name}(toy.{parent}):\n    def {method}(self, x):\n        return 3\n"


def method(name, body="return 1", owner="ToyLayer", decorator=""):
    above = f"    {decorator}\n" if decorator else ""
    return f"class {owner}(toy.{owner}):\n{above}    def {name}(self):\n        {body}\n"


def function(name, body="return x", before=""):
    return f"{before}def {name}(x):\n    {body}\n\n\n{LAYER.format(2)}"


# Each file with what the finding says: its code, the name, and a name that may be meant.
UNUSED = {
    "a misspelt class": (LAYER.format(2) + child("ToyNrm", "ToyNorm"), "PG420 ToyNrm ToyNorm"),
    "a class of its own": (LAYER.format(2) + "class ToyNrm:\n    x = 1\n", "PG420 ToyNrm ToyNorm"),
    "another ending in a new model": (TINY + child("TinyScale", "ToyNorm"), "PG420 TinyScale"),
    "a misspelt method": (method("foward"), "PG422 ToyLayer.foward forward"),
    "a method that calls itself": (
        method("foward", "return self.foward()"),
        "PG422 ToyLayer.foward forward",
    ),
    "a property": (method("rate", decorator="@property"), "PG422 ToyLayer.rate"),
    "a method of a mixin": (
        "class Clamp:\n    def foward(self, x):\n        return 1\n\n\n"
        "class ToyNorm(Clamp, toy.ToyNorm):\n    pass\n",
        "PG422 Clamp.foward forward",
    ),
    "a misspelt function": (function("scael"), "PG423 scael scale"),
    "a function whose caller was replaced": (
        "def shift(x):\n    return 2\n\n\n" + function("scale", "return 3"),
        "PG423 shift",
    ),
    "a value by a name that upstream gave up": (
        "shfit = abs\n" + LAYER.format(2),
        "PG423 shfit shift",
    ),
    "a constant": ("LIMIT = 2\n\n\n" + LAYER.format(2), "PG423 LIMIT"),
}


@pytest.mark.parametrize("text, wanted", UNUSED.values(), ids=UNUSED)
def test_unused(text, wanted, tmp_path):
    name = "modular_tiny.py" if "class Tiny" in text else "modular_toy_x.py"
    (message,) = problems_of(tmp_path, text, name)
    code, owner, *near = wanted.split()
    assert re.match(rf"{code} nothing uses (the (class|function|name) )?{owner}\b", message)
    assert re.findall(r"did you mean (\w+)\?", message) == near


NOOP = {
    "named by the variant": LAYER.format("ToyNrm()") + child("ToyNrm", "ToyNorm"),
    "named in a string": LAYER.format("'ToyNrm'") + child("ToyNrm", "ToyNorm"),
    "exported": LAYER.format(2) + child("ToyNrm", "ToyNorm") + "\n\n__all__ = ['ToyNrm']\n",
    "the parent's name": LAYER.format(2) + child("ToyNorm", "ToyNorm"),
    "the name of another parent's function": (
        "from toypack import modeling_other as other\n\nscale = other.scale\n\n\n" + LAYER.format(2)
    ),
    "a new head": LAYER.format(2) + child("ToyForTokens", "ToyPreTrainedModel"),
    "a file of blocks": child("TinyNorm", "ToyNorm")
    + child("TinyScale", "ToyNorm")
    + "class F: x = 1\n",
    "a method that is built by name": method(
        "attend_far", "return getattr(self, f'attend_{self.kind}')()"
    ),
    "a method that the docstring names": (
        'class ToyLayer(toy.ToyLayer):\n    """Trainers call `rate`."""\n\n'
        "    def rate(self):\n        return 1\n"
    ),
    "a method that Python calls": method("__len__"),
    "a method that a base's file names": method("_reorder", owner="ToyForCausalLM"),
    "a mixin's override": (
        "class Clamp:\n    def forward(self, x):\n        return super().forward(x) * 2\n\n\n"
        "class ToyNorm(Clamp, toy.ToyNorm):\n    pass\n"
    ),
    "bases that cannot be read": "import torch\n\n\n"
    + LAYER.format("Free()")
    + "class Free(torch.autograd.Function):\n    def setup(x):\n        return x\n",
    "a function that others import": function("helper", "return 2"),
    "a function that is registered": function("mine", before="@print\n"),
}


@pytest.mark.parametrize("text", NOOP.values(), ids=NOOP)
def test_noop(text, tmp_path):
    name = "modular_tiny.py" if "class Tiny" in text else "modular_toy_x.py"
    assert problems_of(tmp_path, text, name) == []


def test_a_variant_that_replaces_nothing_is_refused(tmp_path):
    text = child("ToyNormClamped", "ToyNorm") + "\n\ndef scale(x):\n    return 2\n"
    (message,) = problems_of(tmp_path, text)
    assert message.startswith("PG424 no class takes the place of one of toypack.modeling_toy")
    assert "`class ToyNorm(toy.ToyNorm)`" in message


@pytest.mark.parametrize(
    "text, name",
    [
        pytest.param(
            child("ToyNormClamped", "ToyNorm"), "modular_norms.py", id="a name of its own"
        ),
        pytest.param(
            child("ToyNormClamped", "ToyNorm") + "__all__ = ['ToyNormClamped']\n",
            "modular_toy_x.py",
            id="exported",
        ),
        pytest.param(child("ToyBiModel", "ToyForCausalLM"), "modular_toy_x.py", id="a model"),
        pytest.param(child("ToyNorm", "ToyNorm"), "modular_toy_x.py", id="the parent's name"),
    ],
)
def test_noop_of_a_variant_that_replaces_nothing(text, name, tmp_path):
    assert problems_of(tmp_path, text, name) == []


@pytest.mark.parametrize("base, notes", [("toy.ToyNorm", 1), ("ToyNorm", 0)])
def test_a_class_that_leaves_out_what_the_file_changes_is_noted(base, notes, tmp_path):
    text = f"class ToyCap({base}):\n    def cap(self, x):\n        return x\n"
    (file,) = flattened(
        tmp_path, child("ToyNorm", "ToyNorm") + text + "__all__ = ['ToyCap']\n"
    ).files
    said = [note.what for note in file.notes if "without what ToyNorm of this file" in note.what]
    assert len(said) == notes
