"""Small errors in changed lines: which those are, which errors they have, what is found of each."""

import gc
import importlib.util
import sys
import textwrap
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.cli.commands.verify import has_failed
from patchgen.verifying.case_runner import CaseRunner
from patchgen.verifying.mutation.lines import (
    find_executable_lines,
    find_import_lines,
    instrument,
    read_flat_text,
    refusals,
)
from patchgen.verifying.mutation.mutations import drawn, make_mutants
from patchgen.verifying.mutation.prove import (
    MutationTest,
    digest_of,
    find_functions,
    judged,
    plant_mutant,
    watched,
)
from patchgen.verifying.observe.step import kept
from patchgen.verifying.report import (
    LinesRun,
    MutantResult,
    counted,
    format_counts,
    format_mutants_page,
    from_json,
    make_lines_result,
    make_mutants_result,
)
from patchgen.verifying.variants import Plan, Variant, changes_of, find_added_lines
from tests.gallery import BY_NAME

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")


# --- lines

DIFF = """\
--- transformers/models/x/modeling_x.py
+++ modeling_x_y.py
@@ -2,3 +2,4 @@
 import torch
-import a
+import b
+import c
 ---
@@ -20 +21,2 @@ class X:
+    x = 1
     y = 2
"""


def test_the_lines_that_a_diff_adds_are_numbered_in_the_new_file():
    assert find_added_lines(DIFF) == {3, 4, 21}
    assert find_added_lines("") == frozenset()


TOY = textwrap.dedent('''\
    """A file."""
    import torch

    LIMIT = 3


    def weigh(x, scale, *, bias=None, training=False):
        """Its docstring + 1."""
        if scale < 0:
            raise ValueError(f"{scale + 1} is below 0")
        y = x * scale
        if bias is not None:
            y = y + bias
        for _ in range(LIMIT - 2):
            y = y.clamp(min=0)
        return y


    class Layer:
        slope = 2

        def forward(self, x):
            def inner(z):
                return z - self.slope

            return inner(x)
    ''')
EVERY = frozenset(range(1, TOY.count("\n") + 1))


def line(text):
    return next(number for number, each in enumerate(TOY.split("\n"), 1) if text in each)


@pytest.fixture
def toy(tmp_path):
    path = tmp_path / "toy_of_mutants.py"
    path.write_text(TOY)
    spec = importlib.util.spec_from_file_location("toy_of_mutants", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_lines_that_run_are_seen_and_those_of_other_files_are_not(toy):
    right, can_run = find_functions(toy, TOY), find_executable_lines(TOY, "toy")
    with watched(right, instrument(TOY, right.module.__file__, can_run)) as seen:
        toy.weigh(torch.ones(2), 1.0)
        textwrap.dedent("x")
    assert line("y = x * scale") in seen and line("y = y.clamp") in seen
    assert seen.isdisjoint({line("y = y + bias"), line("raise"), line("return z")})
    assert seen <= find_executable_lines(TOY, "toy")


def test_what_import_runs_is_no_function_and_no_docstring():
    ran = find_import_lines(TOY, "toy") & find_executable_lines(TOY, "toy")
    assert {line("LIMIT = 3"), line("slope = 2")} <= ran
    assert ran.isdisjoint({1, line("y = x"), line("return z")})


def test_lines_that_only_refuse_are_distinguished():
    import ast

    assert refusals(ast.parse(TOY)) == {line("raise")}


@pytest.mark.slow
def test_a_compiled_line_counts(toy):
    compiled = torch.compile(toy.weigh, backend="eager")
    compiled(torch.ones(2), 1.0)  # what only compiles is loaded by then
    torch._dynamo.reset()
    with watched(find_functions(toy, TOY), []) as seen:
        compiled(torch.ones(2), 1.0, bias=torch.ones(2))
    torch._dynamo.reset()
    assert line("y = y + bias") in seen


# --- mutants


def mutants(source, says=""):
    """What the file becomes by each error that is called so, the function's body alone."""
    text = f"def f(self, a, b, c):\n    {source}\n"
    made = make_mutants(text, {2})
    return {m.text(text).split("\n")[1].strip() for m in made if says in m.says}


@pytest.mark.parametrize(
    ("source", "errors"),
    [
        ("return a < b", {"return a <= b", "return a >= b"}),
        ("return a is not None", {"return False"}),
        ("return a is None or b", {"return True or b", "return a is None and b"}),
        ("return a + b", {"return a - b", "return a", "return b"}),
        ("return a @ b", {"return b @ a"}),
        ("return a / b", {"return b / a", "return a * b"}),
        ("return a and b and c", {"return a or b or c", "return b and c", "return a and c"}),
        ("return not a", {"return a"}),
        (
            "return a.sum(-1)",
            {
                "return a.mean(-1)",
                "return a.sum(-2)",
                "return a.sum(1)",
                "return a.sum(-1).detach()",
            },
        ),
        ("return a.to(b)", {"return a"}),
        ("return F.softmax(a)", {"return a"}),
        ("return a[:b]", {"return a[:b + 1]", "return a[:]"}),
        ("return a[:, 1:]", {"return a[:, 2:]", "return a[:, :]"}),
        ("return f(a, b)", {"return f(b, a)"}),
        ("return f(a, attn_mask=b)", {"return f(a)"}),
        ("return f(a, **b)", {"return f(a)"}),
        ("return f(a, self.bias)", {"return f(a, None)"}),
        ("return a if self.training else b", {"return a", "return b", "return a if True else b"}),
        ("return f(True)", {"return f(False)"}),
        ("return a * 0.5", {"return a * (-0.5)", "return a * 0.0"}),
        ("a = a + b", {"pass"}),
        ("a += b", {"a -= b", "pass"}),
        ("self.x = a", {"pass"}),
        ("return (a + b) * c", {"return (a) * c", "return ((a - b)) * c"}),
        (
            "return [x for x in a if x > b]",
            {"return [x for x in a if (x >= b)]", "return [x for x in a if True]"},
        ),
    ],
)
def test_errors_that_a_line_can_have(source, errors):
    assert errors <= mutants(source)


@pytest.mark.parametrize(
    "source",
    [
        "raise ValueError(a + 1)",
        "assert a > 1, a + 1",
        "logger.warning_once(a + 1)",
        "warnings.warn(a + 1)",
        '"""One + 1."""',
        'return f"{a + 1}"',
        "x: Callable[[int], Literal[1]]",
        "import a",
    ],
)
def test_no_error_in_what_only_speaks_or_refuses(source):
    assert not mutants(source)


@pytest.mark.parametrize(
    ("source", "errors"),
    [
        ("return len(a) - 1", set()),
        ("return a.shape[:2]", set()),
        ("return a.shape[0] // 2", set()),
        ("return any(a)", {"return all(a)"}),
        ("return nn.Linear(a, b)", set()),
        ("return a(self, module, mask, b)", {"return a(self, module, None, b)"}),
        ("return torch.arange(a, device=b)", set()),
        ("return F.pad(a, (0, 1))", {"return F.pad(a, (0, 1)).detach()"}),
        ("a = pad(a)", {"a = pad(a).detach()"}),
    ],
)
def test_no_error_that_cannot_run(source, errors):
    assert mutants(source) <= errors


def test_what_others_ask_too_is_not_taken_for_none():
    asked = "    if a is not None:\n        b = a + b\n"
    text = f"def f(self, a, b):\n{asked}{asked}    return b\n"
    assert not any(m.says == "taken for None" for m in make_mutants(text, range(1, 7)))
    text = f"def f(self, a, b):\n{asked}    return b\n"
    assert any(m.says == "taken for None" for m in make_mutants(text, range(1, 5)))


def test_no_error_in_the_test_before_a_refusal():
    refusing = "    if a < 1:\n        raise ValueError\n"
    text = f"def f(a):\n{refusing}    elif a < 2:\n        return 3\n    return 4\n"
    assert {m.line for m in make_mutants(text, range(1, 7))} == {4, 5, 6}


def test_every_error_is_python():
    made = make_mutants(TOY, EVERY)
    assert len(made) > 20
    for mutant in made:
        compile(mutant.text(TOY), "toy", "exec")
        assert mutant.text(TOY) != TOY and mutant.diff(TOY)


def test_the_other_arguments_of_a_call_stay_as_they_are_written():
    text = "def f(self, a, b):\n    return self.g(\n        a,\n        b,\n        mask=a,\n        **b,\n    )\n"
    made = {m.says: m.diff(text) for m in make_mutants(text, {2})}
    assert made["without mask="] == "-         mask=a,"
    assert made["without **b"] == "-         **b,"
    assert made["arguments 1 and 2 swapped"].split("\n") == [
        "+         b,",
        "          a,",
        "-         b,",
    ]
    assert made["detached"] == "-     )\n+     ).detach()"


def test_only_changed_lines_have_errors():
    assert {m.line for m in make_mutants(TOY, {line("y = x * scale")})} == {line("y = x * scale")}


def test_a_sample_is_the_same_each_time_and_has_one_of_each_line_first():
    made = make_mutants(TOY, EVERY)
    lines = len({mutant.line for mutant in made})
    few = drawn(made, TOY, "toy")[:lines]
    assert few == drawn(made, TOY, "toy")[:lines]
    assert {m.line for m in few} == {m.line for m in made}
    assert drawn(made, TOY, "another")[:lines] != few
    assert set(drawn(made, TOY, "toy")) == set(made)


# --- planting


def the_mutant(text, says):
    return next(m for m in make_mutants(TOY, {line(text)}) if m.says == says)


def test_an_error_is_in_the_module_and_then_no_more(toy):
    right = find_functions(toy, TOY)
    kept_name = toy.weigh  # as a decorator or another module keeps it
    with plant_mutant(right, the_mutant("y = x * scale", "right of * dropped")):
        assert kept_name(torch.ones(1), 3.0) == 1
    assert kept_name(torch.ones(1), 3.0) == 3


SUPER = "            return super().forward(x)"
WITH_SUPER = """
class Base:
    def forward(self, x):
        return x


class Layer(Base):
    def forward(self, x):
        if x:
            return super().forward(x)
        return -1
"""


def test_an_error_that_takes_the_only_super_away():
    module = ModuleType("with_super")
    module.__file__ = "with_super.py"
    exec(compile(WITH_SUPER, "with_super.py", "exec"), vars(module))
    (removed,) = [
        mutant
        for mutant in make_mutants(WITH_SUPER, {WITH_SUPER.split("\n").index(SUPER) + 1})
        if mutant.says == "statement removed"
    ]
    with plant_mutant(find_functions(module, WITH_SUPER), removed):
        assert module.Layer().forward(1) == -1
    assert module.Layer().forward(1) == 1


def test_an_error_in_a_function_inside_a_function(toy):
    with plant_mutant(find_functions(toy, TOY), the_mutant("return z - self.slope", "- becomes +")):
        assert toy.Layer().forward(1) == 3
    assert toy.Layer().forward(1) == -1


def test_a_model_is_what_it_was():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    model.config = None
    weight = model[0].weight
    with kept(model):
        with torch.no_grad():
            weight.zero_()
        model.seen = True
        model[0].register_buffer("more", torch.ones(1))
        model[0].weight = None
    assert model[0].weight is weight and weight.abs().sum() > 0
    assert not hasattr(model, "seen") and "more" not in dict(model.named_buffers())


# --- one variant, end to end


@pytest.fixture(scope="module")
def proof():
    variant = BY_NAME["mpnet_sdpa_checkpoint"]
    proof = MutationTest(variant, CaseRunner(variant).pair)
    names = (
        "float64 full closest",
        "float64 right closest",
        "attn_implementation eager",
        "attn_implementation misspelt",
    )
    for case in proof.cases(Plan(dtypes=("float64",))):
        if case.name.startswith("MPNetForMaskedLM") and case.name.endswith(names):
            proof.watch(case)
    assert len(proof.runs) == 4
    return proof


def fate_of(proof, text, says):
    found = [number for number in proof.flat.changed if text in proof.flat.line(number)]
    made = [m for m in make_mutants(proof.flat.text, found) if m.says == says]
    assert made, sorted(m.says for m in make_mutants(proof.flat.text, found))
    return proof.run_mutant(made[0])


@pytest.mark.parametrize(
    ("text", "says", "outcome"),
    [
        pytest.param("return False", "False becomes True", "no difference", id="no difference"),
        pytest.param("attention_mask, False", "False becomes True", "seen", id="seen in the mask"),
        pytest.param("scaling=1", "/ becomes *", "seen", id="seen in the scores"),
        pytest.param(
            "attention_mask, False", "argument is None", "crashed", id="a crash is not seen"
        ),
        pytest.param(
            "dropout=self.dropout.p", "condition negated", "no difference", id="dropout is off here"
        ),
        pytest.param(
            "scores + attention_mask", "statement removed", "unseen", id="no case runs it"
        ),
    ],
)
def test_what_becomes_of_an_error(proof, text, says, outcome):
    fate = fate_of(proof, text, says)
    assert fate.outcome == outcome, fate


def test_class_methods_are_found_where_gc_was_frozen(proof):
    gc.freeze()  # it then lists nothing that was there before
    try:
        found = find_functions(next(iter(proof.runs.values())).pair.module, "")
    finally:
        gc.unfreeze()
    assert any(name.endswith(".is_custom_code") for name, _ in found.functions)


def test_nothing_of_an_error_remains(proof):
    assert fate_of(proof, "attention_mask, False", "False becomes True").outcome == "seen"
    run = next(run for run in proof.runs.values() if run.case.name.endswith("right closest"))
    assert (
        judged(run.case, run.pair)[0] == "equal"
        and digest_of(run.case, run.pair) == run.digest != ""
    )


def test_lines_that_did_not_run_are_named(proof):
    lines = proof.lines_run()
    missed = dict(lines.not_run)
    assert lines.ran + len(missed) + len(lines.refusals) == lines.changed
    assert any("scores + attention_mask" in text for text in missed.values())
    assert all("scaling=1" not in text for text in missed.values())


# --- what is told


def a_fate(outcome, **more):
    return MutantResult("modeling_x.py:3", "f", "+ becomes -", "- a + b\n+ a - b", outcome, **more)


FATES = (
    a_fate("seen"),
    a_fate("seen"),
    a_fate("no difference"),
    a_fate("unseen", note="2 cases ran it"),
    a_fate("crashed"),
)
LINES = LinesRun("modeling_x.py", 4, 2, ((7, "x = 1"),), ((9, "raise"),), 9, 3)


def test_a_crash_and_one_without_a_difference_are_in_no_denominator():
    assert counted(FATES) == {"seen": 2, "unseen": 1, "no difference": 1, "crashed": 1}
    assert format_counts(FATES) == "2 of 3 mutants seen, 1 more made no difference, 1 more crashed"


def test_what_is_unseen_fails_a_run_that_asks_for_it():
    unseen, seen = make_mutants_result("x", FATES), make_mutants_result("x", FATES[:3])
    assert has_failed([seen, unseen], "unseen")
    assert not has_failed([seen, unseen], None) and not has_failed([seen], "unseen")


def test_what_is_unseen_or_did_not_run_is_a_warning():
    assert make_mutants_result("x", FATES).status == "WARN"
    assert make_mutants_result("x", FATES[:3]).status == "PASS"
    assert make_mutants_result("x", FATES[-1:]).status == "NONE"
    assert (
        make_lines_result("x", LINES).status == "WARN"
        and "modeling_x.py:7" in make_lines_result("x", LINES).note
    )
    assert make_lines_result("x", LinesRun("x.py", 3, 2, (), ((9, "raise"),))).status == "PASS"


def test_fates_and_lines_go_through_json():
    import json

    for result in (make_mutants_result("x", FATES), make_lines_result("x", LINES)):
        assert from_json(json.loads(json.dumps(result.as_json()))) == result


def test_the_page_has_each_unseen_mutant_with_its_diff():
    variant = Variant("x", "x", "transformers.models.x", (), ("XModel",), ".")
    page = format_mutants_page(
        [variant],
        [make_mutants_result("x", FATES), make_lines_result("x", LINES)],
        "patchgen verify",
    )
    assert "2 of 3 mutants seen, 1 more made no difference, 1 more crashed." in page
    assert "(5 planted of 9 on lines that ran)" in page
    assert "Lines that did not run: 7." in page and "```diff\n- a + b\n+ a - b\n```" in page
    assert page.count("```diff") == 1


# --- what is read from the diff

BY_HAND = """\
class XLayer(GradientCheckpointingLayer):
    pass


class XModel:
    supports_gradient_checkpointing = True

    def forward(self):
        function = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager)
"""


@pytest.mark.parametrize(
    ("added", "parts", "changes"),
    [
        ({1}, (), ("checkpoint",)),
        ({6}, (), ("checkpoint",)),
        ({2}, (), ()),
        ({1, 6}, ("checkpoint",), ()),  # the part says it
        ({9}, (), ("attention_interface",)),
        ({6, 9}, ("checkpoint",), ("attention_interface",)),
    ],
)
def test_what_is_turned_on_is_read_from_the_diff(added, parts, changes, tmp_path):
    hunks = "".join(f"@@ -0,0 +{number} @@\n+x\n" for number in sorted(added))
    (tmp_path / "modeling_x.diff").write_text(f"--- a\n+++ b\n{hunks}")
    assert changes_of(tmp_path / "modeling_x.py", BY_HAND, parts) == changes


def test_without_a_diff_the_parent_is_compared_under_its_own_names():
    variant = BY_NAME["llama_moe"]
    flat = read_flat_text(variant)
    changed = {flat.line(number) for number in flat.changed}
    assert (
        "class LlamaMoeModel(LlamaMoePreTrainedModel):" not in changed
        and len(flat.changed) < flat.text.count("\n") - 200
    )
