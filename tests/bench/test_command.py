"""`patchgen bench` from outside: what it refuses, what it writes, and that it resumes a record."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from patchgen.cli import main
from tests.toytree import REPOSITORY


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    """Runs it in the repository, with a folder of its own: the exit code and what it printed."""
    monkeypatch.chdir(REPOSITORY)

    def bench(*argv: str) -> tuple[int, str, str]:
        code = main(["bench", "--folder", str(tmp_path), *argv])
        return code, *capsys.readouterr()

    return bench


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        pytest.param(("--device", "cpu"), "bench does not time on a CPU", id="CPU"),
        pytest.param(("--device", "tpu"), "bench runs on cpu or cuda", id="device"),
        pytest.param(
            ("--device", "cuda:1"), "CUDA_VISIBLE_DEVICES chooses among GPUs", id="another GPU"
        ),
        pytest.param(
            ("--look", "--device", "tpu"), "bench runs on cpu or cuda", id="device to look at"
        ),
        pytest.param(("--look", "L1"), "--look runs nothing", id="a look at a case"),
        pytest.param(("--look", "--tiny"), "--look runs nothing", id="a tiny look"),
        pytest.param(("--tiny", "--seconds", "0"), "0.0 is not in the range x>0", id="no time"),
        pytest.param(("--tiny", "--table", "speed"), "'speed' is not one of", id="table"),
    ],
)
def test_usage(bench, tmp_path, argv, message):
    code, out, err = bench(*argv)
    assert (code, out) == (2, "") and message in err
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_nothing_is_timed(bench):
    code, _, err = bench()
    assert code == 2 and "torch finds no CUDA device here: --tiny checks" in err
    code, _, err = bench("--look", "--device", "cuda")
    assert code == 2 and "torch finds no CUDA device here: --look --device cpu" in err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        pytest.param(("L9", "--tiny"), "L9: PG826 is no case of the table matrix", id="case"),
        pytest.param(
            ("--tiny", "--only", "llama_losss"), "hint: did you mean llama_loss", id="variant"
        ),
    ],
)
def test_names_that_nothing_has(bench, tmp_path, argv, message):
    code, out, err = bench(*argv)
    assert (code, out) == (1, "") and message in err
    assert not list(tmp_path.iterdir())


def test_a_damaged_record_is_refused_and_kept(bench, tmp_path):
    path = tmp_path / "bench-matrix-tiny.json"
    path.write_text('{"format": 1, "made"', encoding="utf-8")
    code, _, err = bench("L1", "--tiny")
    assert (
        code == 1
        and "PG817 is not a file that patchgen bench wrote" in err
        and "--again replaces it" in err
    )
    assert path.read_text(encoding="utf-8") == '{"format": 1, "made"'


@pytest.mark.slow
def test_a_full_disk_is_reported_and_leaves_what_was_measured(bench, tmp_path, monkeypatch):
    """No file may grow beyond a few results: to a program that is a full disk."""
    monkeypatch.setenv(
        "PYTHONDONTWRITEBYTECODE", "1"
    )  # Python 3.11 would leave half a compiled file behind
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_500, before[1]))
    try:
        code, _, err = bench(
            "X1-rows", "B1", "--tiny", "--only", "five lines", "--only", "mpnet_sdpa_checkpoint"
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    path = tmp_path / "bench-matrix-tiny.json"
    assert code == 2 and f"{path}: PG910 cannot be written: File too large" in err
    assert "run the same command again" in err
    results = [
        one
        for data in json.loads(path.read_text())["cases"].values()
        for one in data["entries"].values()
    ]
    assert results and all(one["status"] == "ok" for one in results)


def test_one_case_is_run_written_and_taken_up(bench, tmp_path):
    argv = ("M2", "--only", "five lines", "--tiny")
    code, out, err = bench(*argv)
    assert (code, out.splitlines()[0]) == (0, "2 ok"), err
    data = json.loads((tmp_path / "bench-matrix-tiny.json").read_text(encoding="utf-8"))
    assert list(data["cases"]["M2"]["entries"]) == ["sdpa", "five lines"] and data["made"]["tiny"]
    page = (tmp_path / "bench-matrix-tiny.md").read_text(encoding="utf-8")
    assert "| five lines | ok | 0e+00 |" in page and "tokens/s" not in page
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".md"], (
        "no picture of no times"
    )
    again = bench(*argv)
    assert again == (0, out, ""), "nothing is run again"


@pytest.mark.slow
def test_a_look_tells_when_a_mask_is_made(bench, tmp_path):
    code, out, _ = bench("--look", "--device", "cpu")
    data = json.loads(out)
    assert code == 0 and data["device"] == "cpu" and not list(tmp_path.iterdir())
    assert "scaled_dot_product" in data["attention"]["causal, heads of 64"]
    bert, llama = data["masks"]["bert"], data["masks"]["llama"]
    assert (bert["all ones, eager mode"], bert["padded, eager mode"]) == ("none", "bool")
    assert (llama["no mask, eager mode"], llama["padded, eager mode"]) == ("causal", "bool")
    assert all(bert.values()) and all(llama.values()), "something is compiled everywhere"


@pytest.mark.slow
@pytest.mark.parametrize("table", ["finetune", "pretrain", "memory"])
def test_all_of_it(table, tmp_path):
    """The matrix is the longest table: CI runs it, and test_measure does with all other steps."""
    argv = [
        sys.executable,
        "-m",
        "patchgen",
        "bench",
        "--table",
        table,
        "--tiny",
        "--folder",
        str(tmp_path),
    ]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
