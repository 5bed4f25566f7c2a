"""What the plan says of a modular file: which classes are merged, and what the output follows."""

import pytest

from patchgen.compiler.plan.declare import make_plan
from patchgen.syntax.errors import Refusals
from tests.unit.link.toy import read_modular

HEAD = "from own import modeling_toy as toy\n"


def plan_of(top, text):
    modular, bindings = read_modular(top, text)
    return make_plan(modular, bindings)


@pytest.mark.parametrize(
    ("bases", "code"),
    [("toy", "PG109"), ("toy.Missing", "PG103")],
)
def test_a_base_that_is_no_class_is_a_problem(bases, code, tmp_path):
    with pytest.raises(Refusals) as caught:
        plan_of(tmp_path, f"{HEAD}class ToyMLP({bases}):\n    pass\n")
    assert [problem.code for problem in caught.value.problems] == [code]
