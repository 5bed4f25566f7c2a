"""Which blocks a flat file has, and in which order."""

import pytest

from patchgen.compiler.link.flatblock import Builder
from patchgen.compiler.link.gather import gather_contents, list_kinds
from patchgen.compiler.link.order import order_blocks
from patchgen.compiler.merge.merge import merge_class
from patchgen.compiler.plan.declare import make_plan
from patchgen.compiler.plan.lineage import Lineages
from patchgen.compiler.plan.naming import Naming
from patchgen.syntax.errors import PatchgenError
from tests.unit.link.toy import read_modular

HEAD = "from own import modeling_toy as toy\n"
MLP = "class ToyMLP(toy.ToyMLP):\n    pass\n"


def builder_of(top, text):
    modular, bindings = read_modular(top, HEAD + text)
    return Builder(Naming(make_plan(modular, bindings), bindings), Lineages(bindings), merge_class)


def ordered(builder):
    (gathered,) = gather_contents(builder)
    return [block.name for block in order_blocks(gathered, builder) if block.name]


def test_a_file_that_follows_its_parent_has_all_of_it_in_its_order(tmp_path):
    builder = builder_of(tmp_path, MLP)
    assert list_kinds(builder) == ("modeling",)
    assert ordered(builder) == ["scale", "ToyMLP", "ToyModel", "__all__"]


def test_a_new_model_has_what_its_classes_need(tmp_path):
    assert ordered(builder_of(tmp_path, "class FastMLP(toy.ToyMLP):\n    pass\n")) == [
        "scale",
        "FastMLP",
    ]


def test_what_is_new_stands_before_its_first_user(tmp_path):
    text = "LIMIT = 3\nclass ToyModel(toy.ToyModel):\n    limit = LIMIT\n"
    assert ordered(builder_of(tmp_path, text)) == [
        "scale",
        "ToyMLP",
        "LIMIT",
        "ToyModel",
        "__all__",
    ]


def test_statements_that_need_each_other_have_no_order(tmp_path):
    text = "class ToyMLP(toy.ToyMLP):\n    model = toy.ToyModel\n"
    with pytest.raises(PatchgenError) as caught:
        ordered(builder_of(tmp_path, text))
    assert caught.value.problem.code == "PG403"
    assert "ToyMLP and ToyModel" in caught.value.problem.what
