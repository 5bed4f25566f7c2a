"""Merging beyond the flat text: the trace of each pass, decorators of the project, deep code."""

import subprocess
import sys
from pathlib import Path

import pytest

from patchgen.compiler.merge.merge import merge_class
from patchgen.compiler.plan.model import ClassPlan, RewrittenBlock, Symbol
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.text import make_source
from tests.toytree import REPOSITORY
from tests.unit.compiler.plans import Golden, outcome_of


def rewrite_block(text, name, module):
    return RewrittenBlock(
        Symbol(module, name), "class", name, "", text, make_source(text, f"{module}.py", module), 1
    )


def plan(child, parent, bases=("Base",)):
    return ClassPlan(
        "C",
        (rewrite_block(child, "C", "modular"), rewrite_block(parent, "P", "parent")),
        bases,
        ("C", "P"),
        (((0, 1), "Base"), ((1,), "Base")),
    )


PARENT = "@register\nclass P(Base):\n    def f(self, x):\n        return x\n"
CHILD = "class C(P):\n    def f(self, x):\n        return super().f(x) + 1\n"


@pytest.mark.parametrize(
    ("method", "kept"),
    [
        pytest.param("f", False, id="goes with the method that it belongs to"),
        pytest.param("g", True, id="stays with a method that nobody overrides"),
    ],
)
def test_a_decorator_that_the_project_knows(method, kept):
    merged = merge_class(plan(CHILD, PARENT), decorators=[("register", method)])
    assert merged.text.startswith("@register\n") == kept
    assert [note for note in merged.notes if "@register" in note] == (
        [] if kept else list(merged.notes)
    )


def test_every_problem_of_a_pass_is_raised_together():
    child = (
        "class C(P):\n    def f(self, x):\n        a = lambda: super().f(x)\n"
        "        return super().f.__name__, a\n"
    )
    with pytest.raises(PatchgenError) as raised:
        merge_class(plan(child, PARENT.removeprefix("@register\n")))
    assert [problem.code for problem in raised.value.problems] == ["PG211", "PG210"]


@pytest.mark.parametrize("deep", [" + ".join(["x"] * 900), "x" + ".a" * 900])
def test_an_edit_of_deep_code_is_refused(deep):
    parent = f"class P:\n    def f(self, x):\n        y = {deep}\n        return x\n"
    edit = (
        '@edit("f")\n    def e(self, x):\n        with old: return x\n        with new: return -x\n'
    )
    golden = Golden(Path("deep"), {"parent": parent, "modular": f"class C(P):\n    {edit}"})
    assert outcome_of(golden)[1].startswith("# modular.py:3:5: PG308")


def test_libcst_is_loaded_only_where_there_is_an_edit():
    script = """
import sys
from tests.unit.compiler.test_merge import CHILD, PARENT, merge_class, plan
parent = PARENT.removeprefix("@register" + chr(10))
merge_class(plan(CHILD, parent))
print("libcst" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=REPOSITORY
    )
    assert done.stdout.split() == ["False"], done.stderr
