"""What figures are said to mean: by overlap, by memory, and beside the five lines."""

from __future__ import annotations

import pytest

from patchgen.training.bench.case import Case, Shape, Target
from patchgen.training.bench.entry import Entry
from patchgen.training.bench.quartiles import Quartiles, quartiles
from patchgen.training.bench.result import Result, from_json
from patchgen.training.bench.verdict import check_targets, verdict, verdicts

TEN = (0.98, 0.99, 1.0, 1.0, 1.01, 1.02)  # seconds of steps, a spread of a hundredth


def ran(step: float, peak: int = 100, status: str = "ok", **more) -> Result:
    """An entry whose steps took about so many seconds."""
    return Result(
        status, rounds=(tuple(step * part for part in TEN),), tokens=1000, peak=peak, **more
    )


STOCK = {"eager": ran(2.0), "sdpa": ran(1.0)}


@pytest.mark.parametrize(
    ("variant", "competitors", "word"),
    [
        pytest.param(ran(1.0), {}, "tie", id="the same"),
        pytest.param(ran(0.995), {}, "tie", id="quartiles that overlap are no difference"),
        pytest.param(ran(0.9), {}, "faster", id="quartiles that do not"),
        pytest.param(ran(1.1), {}, "slower", id="slower"),
        pytest.param(ran(1.0, 50), {}, "smaller", id="as fast with less memory"),
        pytest.param(ran(1.1, 50), {}, "smaller", id="slower with less memory"),
        pytest.param(ran(1.0, 96), {}, "tie", id="memory within one in twenty is the same"),
        pytest.param(ran(0.9, 300), {}, "faster", id="faster with more memory"),
        pytest.param(ran(0.8), {"five": ran(0.8)}, "redundant", id="the five lines are as fast"),
        pytest.param(ran(0.8), {"five": ran(0.7)}, "redundant", id="or faster"),
        pytest.param(
            ran(0.8, 50), {"five": ran(0.8)}, "faster", id="as fast as these, with less memory"
        ),
        pytest.param(
            ran(1.0),
            {"five": ran(1.0)},
            "redundant",
            id="nothing gained at all, and there are five lines",
        ),
        pytest.param(ran(1.2), {"five": ran(1.2)}, "slower", id="slower counts before redundant"),
        pytest.param(ran(0.1, status="wrong", note="loss"), {}, "wrong", id="fast and wrong"),
        pytest.param(Result("does not fit"), {}, "unknown", id="did not run"),
    ],
)
def test_words(variant, competitors, word):
    assert verdict(variant, STOCK, competitors).word == word


CHECKPOINTED = {**STOCK, "checkpointed": ran(1.3, 50)}


@pytest.mark.parametrize(
    ("variant", "word", "against"),
    [
        pytest.param(ran(1.3, 50), "tie", "checkpointed", id="as slow and as small"),
        pytest.param(ran(1.5, 50), "slower", "checkpointed", id="slower, and as small"),
        pytest.param(ran(1.2, 50), "smaller", "sdpa", id="as small, and faster than what is"),
        pytest.param(ran(1.5, 30), "smaller", "sdpa", id="smaller than both"),
        pytest.param(ran(0.8, 200), "faster", "sdpa", id="the fastest of all"),
    ],
)
def test_smaller_than_the_fastest_is_no_gain_beside_what_is_as_small(variant, word, against):
    found = verdict(variant, CHECKPOINTED, {})
    assert (found.word, found.against) == (word, against)


def test_a_baseline_of_another_batch_is_not_said_to_be_as_small():
    few = Result("ok", rounds=(TEN,), tokens=1200, peak=10)
    assert verdict(ran(1.1, 50), {**STOCK, "more rows": few}, {}).word == "slower", (
        "the fastest of all"
    )
    few = Result("ok", rounds=(TEN,), tokens=950, peak=10)
    assert verdict(ran(1.1, 50), {**STOCK, "fewer rows": few}, {}).word == "smaller"


def test_any_five_lines_that_do_as_well_make_it_redundant():
    """The fastest may take more memory, which a slower one does not."""
    competitors = {"compiled": ran(0.7, 100), "five": ran(0.8, 50)}
    found = verdict(ran(0.8, 50), STOCK, competitors)
    assert (found.word, found.note) == ("redundant", "five does as well (1.00 times its speed)")


@pytest.mark.parametrize(
    ("variant", "word"),
    [
        pytest.param(ran(1.1, rows=24), "smaller", id="more, though slower"),
        pytest.param(ran(0.5, rows=24), "smaller", id="more, and faster"),
        pytest.param(ran(0.5, rows=4), "larger", id="fewer, though faster"),
        pytest.param(ran(1.0, rows=8), "tie", id="as many"),
        pytest.param(ran(0.8, rows=8), "faster", id="as many, faster"),
        pytest.param(ran(1.2, rows=8), "slower", id="as many, slower"),
    ],
)
def test_rows_that_fit(variant, word):
    assert verdict(variant, {"few": ran(0.4, rows=2), "sdpa": ran(1.0, rows=8)}, {}).word == word


def test_it_stands_beside_the_fastest_that_is_right():
    found = verdict(ran(0.5), STOCK, {})
    assert (found.against, found.speed) == ("sdpa", pytest.approx(2.0))


def test_peaks_of_other_batches_are_not_compared():
    small = Result("ok", rounds=((0.1, 0.1),), tokens=100, peak=10)
    assert verdict(ran(0.5, 50), {"eager, 1 row": small}, {}).memory is None


def test_nothing_to_stand_beside():
    assert verdict(ran(1.0), {}, {}).word == "unknown"


def case(*targets: Target, entries: tuple[Entry, ...] = ()) -> Case:
    some = entries or (
        Entry("sdpa"),
        Entry("v + compile", "variant", "v"),
        Entry("v", "variant", "v"),
    )
    return Case("C", "g", "", "llama", "LlamaForCausalLM", (), Shape(1, 1), "causal", some, targets)


@pytest.mark.parametrize(
    ("target", "word", "ratio"),
    [
        pytest.param(
            Target(("v",), ("sdpa",), "speed", 1.9),
            "reached",
            2.0,
            id="the best of a variant's rows",
        ),
        pytest.param(Target(("v",), ("sdpa",), "speed", 2.1), "missed", 2.0, id="missed"),
        pytest.param(
            Target(("v",), ("sdpa",), "memory", 0.6), "reached", 0.5, id="memory, at most"
        ),
        pytest.param(Target(("v",), ("sdpa",), "memory", 0.4), "missed", 0.5, id="memory missed"),
        pytest.param(
            Target(("v",), ("Liger",), "speed", 1.0),
            "not measured",
            None,
            id="a competitor that did not run",
        ),
        pytest.param(Target(("v",), ("sdpa",), "block", 1.0), "not measured", None, id="no block"),
    ],
)
def test_targets(target, word, ratio):
    results = {
        "sdpa": ran(1.0),
        "v + compile": ran(0.5),
        "v": ran(0.9, 50),
        "Liger": Result("unavailable"),
    }
    (found,) = check_targets(case(target), results)
    assert found.word == word
    assert found.ratio == (None if ratio is None else pytest.approx(ratio, rel=0.01))


def test_rows_that_fit_are_a_target_and_a_verdict():
    results = {"sdpa": ran(1.0, rows=8), "v": ran(1.1, rows=24)}
    (found,) = check_targets(case(Target(("v",), ("sdpa",), "rows", 2.5)), results)
    assert (found.word, found.ratio) == ("reached", 3.0)
    assert verdicts(case(), results)["v"].word == "smaller"


def test_quartiles():
    assert quartiles([4, 1, 2, 3]) == Quartiles(1.75, 2.5, 3.25)
    assert quartiles([7]) == Quartiles(7, 7, 7)
    with pytest.raises(ValueError, match="no values"):
        quartiles([])


def test_drift_is_between_rounds_not_within():
    assert Result("ok", rounds=((1.0, 1.0, 9.0), (1.1, 1.1))).drift == pytest.approx(0.1)


def test_a_result_comes_back_from_json():
    result = ran(1.0, masks=("none",), deviation=(0.0, 1e-6, 1e-6), losses=(1.0, 0.5))
    assert from_json(result.as_json()) == result
    assert from_json(Result("no time").as_json()) == Result("no time")
