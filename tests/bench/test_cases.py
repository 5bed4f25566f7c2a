"""The table of cases, what fits a card, and what a run keeps."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import click
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from benchmarks.bench.__main__ import main
from benchmarks.bench.cases import choose_cases, load_cases, parse_entry
from benchmarks.bench.models import make_batch
from benchmarks.bench.page import as_markdown
from benchmarks.bench.plan import (
    CARDS,
    _stored,
    eager_name,
    is_predicted,
    peak_at,
    peaks_of,
    plan,
    predict,
    room_of,
)
from benchmarks.bench.run import Record, code_of, open_record
from patchgen.runtime.variants import known_variants
from patchgen.training.precision import NAMES
from tests.toytree import REPOSITORY, environment

CASES = load_cases()
PAGE = (REPOSITORY / "docs/benchmarks.md").read_text(encoding="utf-8")


def test_every_entry_means_something():
    variants = {variant.name for variant in known_variants(REPOSITORY)}
    for case in CASES:
        names = [entry.name for entry in case.entries]
        assert len(set(names)) == len(names)
        for entry in case.entries:
            assert entry.variant in {"", *variants} and entry.precision in NAMES
        assert all({*who, *against} <= set(names) for who, against, _, _ in case.targets)
    entry = parse_entry("bert_mlm + autocast + compiled layers + rows x4", "pure-bf16")
    assert (entry.variant, entry.precision, entry.compiled) == ("bert_mlm", "amp-bf16", "layers")
    assert entry.times == 4
    with pytest.raises(KeyError):
        parse_entry("sdpa + magic", "fp32")


def test_the_page_describes_every_case():
    rows = dict(re.findall(r"^\| (\w\d) \| (.*?) \|", PAGE, re.MULTILINE))
    assert rows == {case.id: case.about for case in CASES}


@pytest.mark.parametrize("case", [case for case in CASES if _stored().get(case.id)], ids=str)
@pytest.mark.parametrize("card", ["h100", "h200"])
def test_every_baseline_fits(case, card):
    stored = _stored()[case.id]
    if any(is_predicted(e) and eager_name(e) not in stored for e in case.entries):
        pytest.skip("python -m benchmarks.bench.plan has not predicted all of it yet")
    room = room_of(card)
    planned = list(plan([case], room))
    assert room < CARDS[card] and planned[0].rows >= 1
    assert planned[0].peak is not None and planned[0].peak <= room
    for each in planned:
        if each.most is not None:
            assert peak_at(case, each.entry, peaks_of(case, each.entry), each.most) <= room


def test_a_peak_grows_linearly():
    """Two predictions tell that of any number of rows."""
    (case,) = choose_cases(["X2"], (), tiny=True)
    for entry in case.entries[:2]:
        peaks = peaks_of(case, entry)
        assert peak_at(case, entry, peaks, 16) == pytest.approx(
            max(predict(case, entry, 16)), rel=0.02
        )


@pytest.mark.slow
def test_what_is_stored_is_what_is_predicted():
    case = next(case for case in CASES if case.id == "B1")
    stored = peaks_of(case, case.baseline)
    # Peaks grow by the row from the second on: with one row the backward pass holds most at another moment.
    assert [first + more for first, more in stored] == predict(case, case.baseline, 2)


def test_texts_are_the_same_in_every_layout():
    case = next(case for case in CASES if case.id == "L2")
    padded, packed = case.entries[0], case.entries[1]
    wide, full = (make_batch(case, entry, 1, 1000) for entry in (padded, packed))
    assert wide["input_ids"].shape == case.shape(padded, 1)
    assert full["input_ids"].shape == (1, case.length)
    words = wide["input_ids"][wide["attention_mask"].bool()]
    assert torch.equal(words, full["input_ids"].flatten())
    labels = wide["labels"][wide["attention_mask"].bool()]
    assert torch.equal(labels, full["labels"].flatten())


def test_names_that_there_are_not():
    with pytest.raises(click.UsageError, match="is no"):
        choose_cases(["Z9"], (), tiny=True)
    with pytest.raises(click.UsageError, match="is no"):
        choose_cases(["L1"], ["llama_los"], tiny=True)
    (case,) = choose_cases(["L1"], ["Liger"], tiny=True)
    assert [entry.name for entry in case.entries] == ["sdpa", "Liger"]


def test_a_plan_is_printed_without_a_gpu(capfd):
    assert main(["B1", "--plan", "--card", "h100"]) == 0
    out = capfd.readouterr().out
    assert "every baseline fits: True" in out and "bert_mlm_padding_free" in out
    assert main(["B1", "--plan", "--card", "abacus"]) == 1


def test_tiny_models_are_right_and_a_result_is_not_measured_again(tmp_path, capfd):
    argv = ["X2", "--tiny", "--folder", str(tmp_path)]
    assert main(argv) == 0
    assert "4 ok" in capfd.readouterr().out
    content = json.loads((tmp_path / "bench-tiny.json").read_text())
    losses = [each["first"]["loss"] for each in content["cases"]["X2"].values()]
    assert losses == pytest.approx([losses[0]] * 4, rel=1e-4)
    before = (tmp_path / "bench-tiny.json").read_bytes()
    assert main(argv) == 0
    assert (tmp_path / "bench-tiny.json").read_bytes() == before
    assert "X2" not in capfd.readouterr().err
    content["machine"]["torch"] = "1.0"
    (tmp_path / "bench-tiny.json").write_text(json.dumps(content))
    assert main(argv) != 0 and "PG817" in capfd.readouterr().err


def test_a_wrong_variant_is_seen(tmp_path):
    """Its process is told that the baseline has another loss."""
    work = {"case": "X2", "only": [], "tiny": True, "device": "cpu"}
    known = {"eager": {"status": "ok", "first": {"loss": 1.0, "norm": 1.0}}}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bench.run"],
        input=json.dumps({**work, "known": known}),
        capture_output=True,
        text=True,
        env=environment(OMP_NUM_THREADS="1"),
        cwd=REPOSITORY,
        check=True,
    )
    results = [json.loads(line) for line in done.stdout.splitlines()]
    statuses = {each["result"]["status"] for each in results if "entry" in each}
    assert statuses == {"wrong"}


def test_the_table_has_what_was_measured(tmp_path):
    case = next(case for case in CASES if case.id == "X1")
    code = code_of(next(entry for entry in case.entries if entry.name == "bloom_sdpa"))
    timed = {"status": "ok", "rows": 4, "seconds": [0.9, 1.0, 1.2], "mfu": 0.5, "note": ""}
    results = {
        "eager": {**timed, "tokens_a_second": 1000.0, "peak": 4 * 10**9, "predicted": 41 * 10**8},
        "bloom_sdpa": {**timed, "tokens_a_second": 2500.0, "peak": 2 * 10**9, "code": code},
        "eager + checkpointing": {"status": "does not fit", "rows": 4},
    }
    record = Record(tmp_path / "bench.json", {"device": "H100", "torch": "2.11"}, {"X1": results})
    page = as_markdown(record, [case])
    assert "| bloom_sdpa | 4 | 2,500 | 2,083 to 2,778 | 2.50 | 2.00 GB | - | 50.0% |  |" in page
    assert "does not fit" in page and "no time" in page
    assert "at least 1.5 times the speed of eager; measured: 2.50, met by 67%" in page
    results["bloom_sdpa"]["code"] = "of another file"
    page = as_markdown(record, [case])
    assert "| 50.0% | older code |" in page
    results["bloom_sdpa"]["tokens_a_second"] = 1200.0
    assert "measured: 1.20, missed by 20%" in as_markdown(record, [case])
    record.save()
    with pytest.raises(ValueError, match="another device"):
        open_record(tmp_path / "bench.json", "cpu", again=False)


def test_the_page_marks_what_was_measured_with_older_code(tmp_path):
    shutil.copy(REPOSITORY / "docs/records/bench.json", tmp_path)
    assert main(["--page", "--folder", str(tmp_path)]) == 0
    page = (tmp_path / "bench.md").read_text()
    assert page == (REPOSITORY / "docs/records/bench.md").read_text(), "run: make regen"
    assert main(["--page", "--folder", str(tmp_path / "nothing")]) == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_case_on_a_gpu(tmp_path, capfd):
    assert main(["B1", "--only", "bert_mlm", "--folder", str(tmp_path)]) == 0
    results = json.loads((tmp_path / "bench.json").read_text())["cases"]["B1"]
    for result in results.values():
        assert result["peak"] == pytest.approx(result["predicted"], rel=0.1)
        assert 0 < result["mfu"] < 1
