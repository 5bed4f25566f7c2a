"""What the plan says of a modular file: which classes are merged, and what the output follows."""

import ast

import pytest

from patchgen.compiler.plan.declare import find_followed, make_plan, removed_name
from patchgen.compiler.plan.mentions import find_mentions
from patchgen.syntax.errors import Refusals
from patchgen.syntax.statements import is_plain
from tests.unit.plan.toy import read_modular

HEAD = "from own import modeling_toy as toy\n"
SAME_NAME = f"{HEAD}class ToyMLP(toy.ToyMLP):\n    pass\n"
NEW_NAME = f"{HEAD}class FastMLP(toy.ToyMLP):\n    pass\n"


def plan_of(top, text):
    modular, bindings = read_modular(top, text)
    return make_plan(modular, bindings)


def names(symbols):
    return [symbol.name for symbol in symbols]


def test_the_chain_ends_where_a_base_is_not_flattened(tmp_path):
    (declaration,) = plan_of(tmp_path, SAME_NAME).declarations
    assert names(declaration.chain) == ["ToyMLP", "ToyMLP"]
    assert names(declaration.rest) == ["Module"]


def test_a_class_with_its_parents_name_follows_the_parent(tmp_path):
    plan = plan_of(tmp_path, SAME_NAME)
    assert plan.bases == {"modeling": "own.modeling_toy"} and not plan.prefixes


def test_a_class_with_a_name_of_its_own_gives_a_prefix(tmp_path):
    plan = plan_of(tmp_path, NEW_NAME)
    assert not plan.bases
    assert plan.prefixes["own.modeling_toy"].apply("ToyModel") == "FastModel"


def test_a_parent_that_is_needed_itself_stays_a_base(tmp_path):
    (declaration,) = plan_of(tmp_path, f"{SAME_NAME}PARENTS = (toy.ToyMLP,)\n").declarations
    assert not declaration.is_merged and declaration.why


def test_mentions_name_the_class_and_the_reason(tmp_path):
    modular, bindings = read_modular(tmp_path, f"{SAME_NAME}PARENTS = (toy.ToyMLP,)\n")
    (declaration,) = make_plan(modular, bindings).declarations
    parent = declaration.rest[0]
    found = find_mentions((modular,), {declaration.symbol: (parent,)}, bindings)
    assert names(found) == ["ToyMLP"]


@pytest.mark.parametrize(
    ("bases", "code"),
    [("toy", "PG109"), ("toy.Missing", "PG103")],
)
def test_a_base_that_is_no_class_is_a_problem(bases, code, tmp_path):
    with pytest.raises(Refusals) as caught:
        plan_of(tmp_path, f"{HEAD}class ToyMLP({bases}):\n    pass\n")
    assert [problem.code for problem in caught.value.problems] == [code]


@pytest.mark.parametrize(
    ("text", "followed"),
    [
        ("from own.modeling_toy import scale\ndef scale(x):\n    return x\n", "own.modeling_toy"),
        ("from own.modeling_toy import ToyModel\n", None),
    ],
)
def test_a_file_without_classes_follows_what_it_redefines(text, followed, tmp_path):
    modular, bindings = read_modular(tmp_path, text)
    assert find_followed(modular, bindings).get("modeling") == followed


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("def prune(self):\n    raise AttributeError", "prune"),
        ("def prune(self):\n    '''Not here.'''\n    raise AttributeError('no')", "prune"),
        ("limit = AttributeError()", "limit"),
        ("def prune(self):\n    raise ValueError", None),
        ("def prune(self):\n    print()\n    raise AttributeError", None),
        ("limit = 3", None),
    ],
)
def test_what_a_statement_removes(statement, name):
    assert removed_name(ast.parse(statement).body[0]) == name


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("LIMIT = 3\n", True),
        ("NAMES = ('a', 'b')\n", True),
        ("logger = get_logger(__name__)\n", True),
        ("SIZES = [3]\n", False),
        ("BOX = Box()\n", False),
    ],
)
def test_which_values_cannot_change(text, plain, tmp_path):
    module, _ = read_modular(tmp_path, text)
    assert is_plain(module.blocks[0]) == plain
