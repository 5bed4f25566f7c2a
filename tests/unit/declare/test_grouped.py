"""`patchgen new --with grouped`: loops that the experts interface can replace, and others."""

import ast
from pathlib import Path

import pytest

from patchgen.author.anatomy.module import find_module, make_module, open_module
from patchgen.author.declare.grouped import grouped
from patchgen.author.declare.request import answer
from patchgen.syntax.errors import PatchgenError, problems_of
from patchgen.syntax.locate import make_environment
from patchgen.syntax.text import make_source
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the cases are of another release of transformers"
)

GALLERY = Path("modular")


@pytest.fixture(scope="module")
def env():
    return make_environment(Path.cwd())


def code_of(text):
    """The classes, without docstrings and the parameters of edits, which tell of names alone."""
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            node.args = []
    return ast.unparse(tree)


@pytest.mark.parametrize("model", ["jetmoe", "step3p7"])
def test_it_is_what_the_gallery_has_by_hand(env, model):
    by_hand = (GALLERY / model / f"modular_{model}_grouped.py").read_text(encoding="utf-8")
    assert code_of(answer(env, model, ["grouped"]).text) == code_of(by_hand)


def changed(env, model, old, new):
    """What is declared of `model` with another text in its file."""
    module = open_module(env, find_module(env, model))
    text = module.source.text
    assert old in text
    return grouped(
        make_module(
            module.name, make_source(text.replace(old, new), module.source.path, module.name)
        )
    )


def test_a_loop_as_in_mixtral_gets_the_decorator(env):
    """Its gate is the interface's own."""
    found = changed(env, "mixtral", "@use_experts_implementation", "")
    assert [(one.name, one.decorators) for one in found.declared] == [
        ("MixtralExperts", ("use_experts_implementation",))
    ]
    assert "from transformers.integrations import use_experts_implementation" in found.imports


ONE = "current = F.linear(current, self.down_proj[expert_idx])"
OTHER = {
    "a step of its own": (
        ONE,
        f"current = current.clamp(max=3.0)\n            {ONE}",
        "an expert computes",
    ),
    "no weights of the router": (
        " * top_k_weights[token_idx, top_k_pos, None]",
        "",
        "an expert computes",
    ),
    "another matrix": (
        "self.down_proj[expert_idx]",
        "self.other[expert_idx]",
        "an expert computes",
    ),
    "a branch": (
        ONE,
        f"if expert_idx > 2:\n                current = current * 2\n            {ONE}",
        "an expert computes",
    ),
    "other arguments": (
        "top_k_weights: torch.Tensor\n    ) -> torch.Tensor:\n        final",
        "w\n    ):\n        final",
        "forward takes",
    ),
    "no stack": (
        "self.down_proj = nn.Parameter",
        "self.down = nn.Parameter",
        "no parameter down_proj",
    ),
}


@pytest.mark.parametrize(("old", "new", "why"), OTHER.values(), ids=OTHER)
def test_what_the_interface_does_not_compute_is_a_reason(env, old, new, why):
    found = changed(env, "step3p7", old, new)
    assert not found.declared
    (missing,) = found.missing
    assert missing.fatal and missing.hint and missing.at.line
    assert missing.what.startswith("Step3p7Experts: ") and why in missing.what


def test_weights_in_another_layout_are_a_reason(env):
    with pytest.raises(PatchgenError) as error:
        answer(env, "dbrx", ["grouped"])
    (problem,) = problems_of(error.value)
    assert problem.code == "PG803" and "no parameter gate_up_proj" in str(problem)


def test_sizes_that_others_read_stay_a_list(env):
    old = "expert_inputs = layer_input[batch_index]"
    found = changed(env, "jetmoe", old, f"{old}\n        most = max(expert_size)")
    assert "is read here too" in found.missing[0].what and not found.declared


def test_what_transformers_groups_itself_is_redundant(env):
    found = answer(env, "mixtral", ["grouped"])
    assert not found.text and "experts_implementation='grouped_mm'" in found.left_out[0].redundant
    with pytest.raises(PatchgenError) as error:
        answer(env, "mixtral", ["grouped"], force=True)
    assert [problem.code for problem in problems_of(error.value)] == ["PG803"]
