"""`patchgen new --with grouped`: loops over experts as products of all rows, and those that it is not written for."""

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

from patchgen.anatomy.module import find_module, make_module, open_module
from patchgen.declare.grouped import grouped
from patchgen.declare.request import answer
from patchgen.errors import PatchgenError, problems_of
from patchgen.source.locate import make_environment
from patchgen.source.text import make_source
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(find_package() is None, reason="the cases are of another release of transformers")

GALLERY = Path("modular")


@pytest.fixture(scope="module")
def env():
    return make_environment(Path.cwd())


def code_of(text):
    """Without docstrings."""
    tree = ast.parse(text)
    del tree.body[0]
    return ast.unparse(tree)


@pytest.mark.parametrize("model", ["jetmoe", "step3p7"])
def test_it_is_what_the_gallery_has_by_hand(env, model):
    by_hand = (GALLERY / model / f"modular_{model}_grouped.py").read_text(encoding="utf-8")
    new = answer(env, model, ["grouped"]).text
    assert calls(new) == calls(by_hand)


def calls(text):
    """The functions of the part that are called, in order."""
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    found.sort(key=lambda node: (node.lineno, node.col_offset))
    names = [ast.unparse(node.func) for node in found]
    return [name for name in names if name.startswith(("grouped_", "pairs", "stacked", "expert_size."))]


def changed(env, model, old, new):
    """What is declared of `model` with another text in its file."""
    module = open_module(env, find_module(env, model))
    text = module.source.text
    assert old in text
    return grouped(make_module(module.name, make_source(text.replace(old, new), module.source.path, module.name)))


LINEAR = "current = F.linear(current, self.down_proj[expert_idx])"
# What one expert may do with its tokens, put before Step 3.7's second product.
SAME = {
    "a step of its own": ("current = current.clamp(max=3.0)", "current.clamp(max=3.0)"),
    "a bias for each expert": ("current = current + self.bias[expert_idx]", "current + self.bias[pairs.expert_P]"),
    "a matrix that is turned": (
        "current = current @ self.other[expert_idx].T",
        "grouped_linear(current, self.other, None, pairs)",
    ),
    "a condition of the configuration": ("if self.training:\n    current = current * 2", "if self.training:"),
}


@pytest.mark.parametrize(("step", "written"), SAME.values(), ids=SAME)
def test_what_looks_at_one_row_is_kept(env, step, written):
    found = changed(env, "step3p7", *inserted(step))
    assert not found.missing
    assert written in found.declared[0].members[0]


def inserted(step):
    place = "            current = F.linear(current, self.down_proj[expert_idx])"
    indented = "".join(f"            {line}\n" for line in step.splitlines())
    return place, indented + place


OTHER = {
    "a mean over the tokens of one expert": "current = current - current.mean(0)",
    "a split of the tokens": "current, _ = current.chunk(2)",
    "a view over several tokens": "current = current.view(2, -1)",
    "a choice by the number of the expert": "if expert_idx > 2:\n    current = current * 2",
    "a value of the expert before": "current = current + last_one\nlast_one = current",
    "the states of all tokens": "current = current + hidden_states",
    "what the loop has done so far": "current = current + final[token_idx]",
    "an unknown function": "current = torch.cumsum(current, 0)",
}


@pytest.mark.parametrize("step", OTHER.values(), ids=OTHER)
def test_what_looks_at_more_than_a_row_is_a_reason(env, step):
    found = changed(env, "step3p7", *inserted(step))
    assert not found.declared
    (missing,) = found.missing
    assert missing.fatal and missing.hint and missing.at.line
    assert missing.what.startswith("Step3p7Experts: ")


def test_values_are_those_of_their_place(env):
    """A name that is bound again stands for what it was where it was read."""
    found = changed(env, "step3p7", *inserted("other = current\ncurrent = current * 2\ncurrent = current + other"))
    assert "other = current\n    current = current * 2\n    current = current + other" in found.declared[0].members[0]


def test_rows_that_are_not_known_to_be_one_hot_are_refused(env):
    found = changed(
        env, "switch_transformers", "expert_index = expert_index * expert_capacity_mask", "expert_index = f(1)"
    )
    assert "selected_experts` is not known to name one expert" in found.missing[0].what


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


# Every expert's module, by its configuration.
TINY = {
    "dbrx": {"hidden_size": 8, "ffn_hidden_size": 8, "moe_num_experts": 4, "ffn_act_fn": {"name": "silu"}},
    "step3p7": {"num_local_experts": 4, "hidden_size": 8, "moe_intermediate_size": 8, "hidden_act": "silu"},
    "longcat_flash": {
        "expert_ffn_hidden_size": 8,
        "hidden_size": 8,
        "n_routed_experts": 3,
        "zero_expert_num": 1,
        "hidden_act": "silu",
    },
    "nllb_moe": {
        "num_experts": 4,
        "d_model": 8,
        "activation_dropout": 0.0,
        "activation_function": "relu",
        "moe_token_dropout": 0.2,
    },
    "switch_transformers": {"num_experts": 4, "d_model": 8, "d_ff": 8, "dropout_rate": 0.0, "dense_act_fn": "relu"},
}


@pytest.mark.parametrize("model", TINY)
def test_it_computes_what_the_loop_does(env, model):
    """The modular file is Python: its class, which inherits, and the parent's over the same weights."""
    torch = pytest.importorskip("torch")
    space = {}
    exec(compile(answer(env, model, ["grouped"]).text, model, "exec"), space)
    ours = next(value for value in space.values() if isinstance(value, type) and value.__module__ == "builtins")
    torch.manual_seed(0)
    arguments = (SimpleNamespace(**TINY[model]), *([8] if model == "nllb_moe" else []))
    variant = ours(*arguments).double().eval()
    for parameter in variant.parameters():
        torch.nn.init.normal_(parameter)
    states = torch.randn(24, 8, dtype=torch.float64, requires_grad=True)
    choice = torch.stack([torch.randperm(4)[:2] for _ in range(24)])
    weights = torch.rand(24, 2, dtype=torch.float64)
    if model == "nllb_moe":  # its choices are an expert for each expert that there is
        choice, weights = torch.randint(2, (24, 4)), torch.rand(24, 4, dtype=torch.float64)
    if model == "switch_transformers":
        choice, weights = torch.nn.functional.one_hot(choice[:, :1], 4), weights[:, :1]
        choice[3] = 0
    results = []
    for forward in (variant.forward, lambda *given: ours.__bases__[0].forward(variant, *given)):
        out = forward(states if model != "dbrx" else states.unsqueeze(0).view(2, 12, 8), choice, weights)
        gradients = torch.autograd.grad(out.square().sum(), [states, *variant.parameters()], allow_unused=True)
        results.append([out, *(0 if one is None else one for one in gradients)])
    for one, other in zip(*results, strict=True):
        assert torch.allclose(torch.as_tensor(one).double(), torch.as_tensor(other).double(), rtol=1e-10, atol=1e-10)
