"""Pages and charts of a record show what was measured, and nothing else."""

from __future__ import annotations

from xml.etree import ElementTree

from patchgen.training.bench.case import Case, Shape, Target
from patchgen.training.bench.entry import FIVE_LINES, SDPA, Entry
from patchgen.training.bench.page import as_markdown, best_verdicts
from patchgen.training.bench.pictures import pictures
from patchgen.training.bench.record import Record
from patchgen.training.bench.result import Result

MADE = {"device": "NVIDIA H200", "tiny": False, "versions": {"torch": "2.13.0", "triton": ""}}
MACHINE = {
    "memory": 140 * 2**30,
    "CUDA": "13.0",
    "cuDNN": 91900,
    "product": 800e12,
    "datasheet": 1000e12,
}


def entries() -> tuple[Entry, ...]:
    fast, slow = (
        Entry("v + compile", "variant", "v", compiled="whole"),
        Entry("v", "variant", "v", no_mask=True),
    )
    return SDPA, FIVE_LINES, fast, slow


def case() -> Case:
    speed = Target(("v",), ("sdpa",), "speed", 1.5), Target(("v",), ("Liger",), "speed", 1.0)
    targets = (*speed, Target(("v",), (), "rate", 9e14))
    return Case(
        "C1",
        "g",
        "a case",
        "llama",
        "LlamaForCausalLM",
        (),
        Shape(1, 1000),
        "causal",
        entries(),
        targets,
    )


def ran(seconds: float, gib: float, **more) -> Result:
    rounds = ((seconds * 0.99, seconds, seconds * 1.01), (seconds, seconds))
    return Result(
        "ok",
        rounds=rounds,
        tokens=1000,
        samples=4,
        peak=int(gib * 2**30),
        deviation=(1e-4, 2e-3, 1e-2),
        **more,
    )


def record(tmp_path, results: dict[str, Result], **about) -> Record:
    made = Record(tmp_path / "bench-matrix.json", MADE, MACHINE)
    made.about("C1").update(
        {
            "parameters": 1e9,
            "tokens": 1000,
            "places": 2000,
            "texts": 2,
            "work": 8e12,
            "done": True,
            **about,
        }
    )
    for name, result in results.items():
        made.add("C1", name, result)
    return made


def line(page: str, begin: str) -> list[str]:
    """The cells of the row that begins so, in the case's table."""
    (row,) = [
        row for row in page.partition("## C1")[2].splitlines() if row.startswith(f"| {begin} |")
    ]
    return [cell.strip() for cell in row.strip("|").split("|")]


RESULTS = {
    "sdpa": ran(0.020, 8, masks=("bool",)),
    "five lines": ran(0.018, 8, masks=("causal",)),
    "v + compile": ran(0.010, 4, masks=("causal",)),
    "v": ran(0.018, 8, masks=("bool",)),
}


def test_the_table_has_speed_time_mfu_and_memory(tmp_path):
    page = as_markdown(record(tmp_path, RESULTS), [case()])
    cells = line(page, "sdpa")
    # 8 TFLOP in 20 ms are 400 TFLOP/s.
    assert cells[2:8] == ["50,000", "1.00", "200.0", "20.00 (20.00 to 20.00)", "50 % / 40 %", "8.0"]
    assert line(page, "v + compile")[1] == "faster"
    assert "`patchgen bench` on NVIDIA H200: torch 2.13.0. 140 GiB" in page
    assert (
        "1,000 real tokens in 2,000 places" in page
        and "800 TFLOP/s here; the datasheet says 1000" in page
    )


def test_a_peak_by_the_driver_is_marked(tmp_path):
    page = as_markdown(record(tmp_path, {**RESULTS, "v": ran(0.018, 8, driver=True)}), [case()])
    assert line(page, "v")[7] == "8.0 (driver)" and line(page, "sdpa")[7] == "8.0"


def test_a_failed_check_is_reported_in_place_of_a_verdict(tmp_path):
    page = as_markdown(record(tmp_path, RESULTS), [case()])
    assert line(page, "v")[1] == "check failed"
    assert "- v: SDPA got bool, and should get no mask" in page


def test_a_variant_whose_checks_failed_is_wrong_in_the_summary(tmp_path):
    slow = {name: result for name, result in RESULTS.items() if name != "v + compile"}
    assert best_verdicts(record(tmp_path, slow), [case()])["v"][2].word == "wrong"


def test_targets_say_whether_they_were_measured(tmp_path):
    page = as_markdown(record(tmp_path, RESULTS), [case()])
    first, second, third = (row for row in page.splitlines() if row.startswith("| C1 |"))
    assert first == "| C1 | v + compile | sdpa | speed at least 1.5 | 2.00 | reached |"
    assert third == "| C1 | v + compile |  | 900 TFLOP/s | 800 | missed |"
    assert second == "| C1 | v | Liger | speed at least 1 |  | not measured |"


def test_the_best_row_of_a_variant_counts(tmp_path):
    where, row, found = best_verdicts(record(tmp_path, RESULTS), [case()])["v"]
    assert (where, row, found.word) == ("C1", "v + compile", "faster")
    page = as_markdown(record(tmp_path, RESULTS), [case()])
    assert "Wrong in other rows, whatever they gain: C1, v.\n" in page, (
        "the other row's check failed"
    )


def test_rounds_that_drift_are_reported(tmp_path):
    unsteady = Result("ok", rounds=((1.0, 1.0), (1.2, 1.2)), tokens=1000)
    page = as_markdown(record(tmp_path, {"sdpa": unsteady}), [case()])
    assert "- sdpa: its rounds differ by 20 %; the clock was not steady" in page


def test_what_did_not_run_has_its_reason_and_no_figure(tmp_path):
    page = as_markdown(
        record(tmp_path, {"sdpa": Result("failed", "RuntimeError: x")}, done=False), [case()]
    )
    assert line(page, "sdpa") == ["sdpa", "failed", "", "", "", "", "", "", "", ""]
    assert "- sdpa: failed, RuntimeError: x" in page and "did not run to its end" in page


def test_a_page_of_tiny_models_has_no_speed(tmp_path):
    small = record(
        tmp_path,
        {"sdpa": Result("ok", saved=100, deviation=(0.0, 1e-6, 1e-6)), "v": Result("ok", saved=50)},
    )
    small.made, small.machine = {**MADE, "tiny": True, "device": "cpu"}, {}
    page = as_markdown(small, [case()])
    assert not {"tokens/s", "MFU", "GiB", "Verdicts", "Targets"} & set(
        page.replace("|", " ").split()
    )
    assert line(page, "v")[-1] == "0.50"
    assert pictures(small, [case()]) == {}


def test_pictures_are_whole_and_sorted_by_speed(tmp_path):
    found = pictures(record(tmp_path, RESULTS), [case()])
    assert sorted(found) == ["C1-memory", "C1-speed"]
    texts = [
        one.text
        for one in ElementTree.fromstring(found["C1-speed"]).iter(
            "{http://www.w3.org/2000/svg}text"
        )
    ]
    assert texts.index("v + compile") < texts.index("sdpa")
