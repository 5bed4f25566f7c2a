"""Which classes of a variant nothing uses, and which that nothing uses are meant so."""

import pytest

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from tests.toytree import Tree

PARENT = """class PreTrainedModel:
    pass


class ToyNorm:
    def f(self):
        return 1


class ToyLayer:
    norms = "ToyNorm"

    def f(self):
        return ToyNorm().f()


class ToyPreTrainedModel(PreTrainedModel):
    pass


class ToyForCausalLM(ToyPreTrainedModel):
    def f(self):
        return ToyLayer().f()


__all__ = ["ToyForCausalLM"]
"""
# A class that does take its parent's place, so that there is a variant at all.
VARIANT = """from toypack import modeling_toy as toy


class ToyLayer(toy.ToyLayer):
    def g(self):
        return {used}


"""


def warned(tmp_path, text, used="2", ending=""):
    """The names of the classes of `text` that the conversion warns of."""
    tree = Tree(tmp_path)
    tree.write("toypack/__init__.py", "")
    tree.write("toypack/modeling_toy.py", PARENT)
    path = tree.write("toypack/modular_toy_x.py", VARIANT.format(used=used) + text + ending)
    result = flatten(path, make_environment(tmp_path, search=[]), Settings())
    assert result.problems == ()
    warnings = [warning for file in result.files for warning in file.warnings]
    assert all(
        (w.code, w.severity, w.at.path) == ("PG420", "warning", "toypack/modular_toy_x.py")
        for w in warnings
    )
    return [warning.what.split()[4].rstrip(",") for warning in warnings]


def child(name, parent):
    return f"class {name}(toy.{parent}):\n    def g(self):\n        return 3\n"


MISSPELT = child("ToyNrm", "ToyNorm")


@pytest.mark.parametrize(
    "name, parent",
    [("ToyNrm", "ToyNorm"), ("BigNorm", "ToyNorm"), ("ToyForCasualLM", "ToyForCausalLM")],
)
def test_a_class_that_nothing_uses(name, parent, tmp_path):
    assert warned(tmp_path, child(name, parent)) == [name]


@pytest.mark.parametrize(
    "text, used, ending",
    [
        pytest.param(MISSPELT, "ToyNrm()", "", id="used by the variant"),
        pytest.param(MISSPELT, "'ToyNrm'", "", id="named in a string"),
        pytest.param(MISSPELT, "2", "\n\n__all__ = ['ToyNrm']\n", id="exported"),
        pytest.param(child("ToyNorm", "ToyNorm"), "2", "", id="the parent's name"),
        pytest.param(child("ToyForTokens", "ToyPreTrainedModel"), "2", "", id="a new head"),
        pytest.param(child("ToyForCausalLM2", "ToyForCausalLM"), "2", "", id="a further model"),
        pytest.param("class Free:\n    x = 1\n", "2", "", id="no parent"),
    ],
)
def test_noop(text, used, ending, tmp_path):
    assert warned(tmp_path, text, used, ending) == []
