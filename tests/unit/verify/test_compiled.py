"""What a compiled variant is held against, and how far it may be from that."""

import functools

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from patchgen.verifying.case_runner import CaseRunner
from patchgen.verifying.checks import running
from patchgen.verifying.checks.context import Case
from patchgen.verifying.observe.step import observe_step
from patchgen.verifying.parts.part_check import Scenario
from patchgen.verifying.variants import Variant

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

EPSILON = torch.finfo(torch.float32).eps
LLAMA, T5 = ("llama", "LlamaModel"), ("t5", "T5ForConditionalGeneration")


@functools.cache
def bench(model, head):
    module = f"transformers.models.{model}.modeling_{model}"
    return CaseRunner(Variant(model, module, module, (), (head,), "."))


def case(head):
    return Case("", "compiled", head, scenario=Scenario(train=True), detail="eager")


def test_what_is_compiled_is_counted():
    result = bench(*LLAMA).run(case("LlamaModel"))
    assert result.status == "PASS"
    assert result.note.startswith("reordered to itself uncompiled;")
    assert (
        result.difference <= result.bound
        and result.note.endswith("operations")
        and "1 graphs of" in result.note
    )


def test_nothing_compiled_is_no_pass():
    with torch._dynamo.config.patch(disable=True):
        result = bench(*LLAMA).run(case("LlamaModel"))
    assert result.status == "FAIL" and "nothing was compiled" in result.note


@pytest.mark.parametrize(
    ("where", "status"),
    [
        pytest.param(LLAMA, "FAIL", id="a model that float32 moves little"),
        pytest.param(
            T5, "PASS", id="one whose scores are not scaled", marks=pytest.mark.slow
        ),  # it compiles longest
    ],
)
def test_the_same_distance_is_noise_in_one_model_and_none_in_another(where, status, monkeypatch):
    """As of inductor's T5, which was 308 roundings from itself uncompiled."""

    def differ(model, *args, **how):
        seen = observe_step(model, *args, **how)
        if model._compiled_call_impl is not None:
            name = max(
                seen, key=lambda name: seen[name].abs().max() if name.startswith("gradient") else 0
            )
            seen[name] = seen[name] + 308 * EPSILON * seen[name].abs().max()
        return seen

    monkeypatch.setattr(running, "observe_step", differ)
    result = bench(*where).run(case(where[1]))
    assert result.status == status, result
    assert 300 * EPSILON < result.difference < 320 * EPSILON
