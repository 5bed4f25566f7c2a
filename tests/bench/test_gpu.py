"""What needs a GPU: events, peaks, graphs, sizes that fit, and compiled models."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from patchgen.training.bench.case import Case, Shape
from patchgen.training.bench.checks import failed_checks
from patchgen.training.bench.compiling import compile_model
from patchgen.training.bench.entry import (
    COMPILED,
    CUDNN,
    FIVE_LINES,
    FIVE_LINES_COMPILED,
    FLASH,
    LAYERS,
    SDPA,
    Entry,
    variant,
)
from patchgen.training.bench.fits import find_rows_that_fit
from patchgen.training.bench.machine import machine
from patchgen.training.bench.matrix import B1
from patchgen.training.bench.reference import compute_reference
from patchgen.training.bench.result import from_json
from patchgen.training.bench.round import TINY_ROUNDS, first_round
from patchgen.training.bench.run_case import Budget, run_case
from patchgen.training.bench.setup import CaseSetup, Scale
from patchgen.training.bench.tiny import tiny_case
from tests.toytree import REPOSITORY

SIZES = (
    ("vocab_size", 4096),
    ("hidden_size", 256),
    ("intermediate_size", 512),
    ("num_hidden_layers", 4),
    ("num_attention_heads", 4),
    ("num_key_value_heads", 2),
    ("head_dim", 64),
)
GRAPHS = Entry("sdpa + CUDA graphs", compiled="graphs")
CASE = Case(
    id="S",
    group="s",
    about="a small Llama",
    model="llama",
    head="LlamaForCausalLM",
    config=SIZES,
    shape=Shape(8, 512),
    task="causal",
    entries=(
        *(SDPA, CUDNN, FLASH, COMPILED, LAYERS, GRAPHS, FIVE_LINES, FIVE_LINES_COMPILED),
        variant("llama_loss"),
        Entry("autocast float16", precision="amp-fp16"),
    ),
    seconds=500,
)


def run_entries(case: Case) -> dict:
    answers: list[dict] = []
    run_case(
        case,
        "cuda",
        False,
        (),
        Budget(time.monotonic() + 500),
        lambda **answer: answers.append(answer),
    )
    return {
        answer["entry"]: from_json(answer["result"]) for answer in answers if "result" in answer
    }


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_case_is_timed_on_the_device():
    results = run_entries(CASE)
    assert {name: result.status for name, result in results.items()} == dict.fromkeys(results, "ok")
    assert failed_checks(CASE, results) == {}
    assert all(
        [len(run_round) for run_round in result.rounds] == [7, 3] for result in results.values()
    )
    assert all(0 < result.step.median < 1 and result.peak for result in results.values())
    assert results["llama_loss"].peak < results["sdpa"].peak, (
        "logits of 4096 tokens by 4096 words are gone"
    )
    assert any("flash" in kernel.lower() for kernel in results["sdpa, flash forced"].kernels)
    assert any("cudnn" in kernel.lower() for kernel in results["sdpa, cuDNN forced"].kernels)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_the_memory_of_replayed_graphs_is_seen():
    results = run_entries(replace(CASE, entries=(SDPA, COMPILED, GRAPHS)))
    graphs, compiled = results[GRAPHS.name], results[COMPILED.name]
    assert graphs.driver and not compiled.driver and graphs.peak > 0.9 * compiled.peak


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_what_does_not_fit_below_a_limit_is_found():
    setup = CaseSetup(CASE, Scale("cuda"))
    free = find_rows_that_fit(setup, SDPA)
    tight = find_rows_that_fit(setup, SDPA, limit=2 * 2**30)
    assert tight.rows is not None and free.rows is not None and tight.rows < free.rows
    assert (
        find_rows_that_fit(setup, replace(SDPA, checkpoint="full"), limit=2 * 2**30).rows
        >= tight.rows
    )


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_the_machine_is_measured():
    answer = machine("cuda")
    assert answer["product"] > 1e12 and answer["memory"] > 2**30
    assert answer["datasheet"] is None or answer["product"] < 1.05 * answer["datasheet"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_the_command_measures(tmp_path):
    argv = [
        "bench",
        "B1",
        "--only",
        "sdpa + CUDA graphs",
        "--folder",
        str(tmp_path),
        "--seconds",
        "200",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "patchgen", *argv], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads((tmp_path / "bench-matrix.json").read_text(encoding="utf-8"))
    assert answer["cases"]["B1"]["done"] and answer["machine"]["product"] > 0
    assert (tmp_path / "bench-matrix-B1-speed.svg").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["whole", "layers", "graphs"])
def test_inductor_takes_the_graphs(how):
    """As it does on a GPU; on the CPU it makes C++ of them, and no CUDA graphs."""
    setup = CaseSetup(tiny_case(B1), Scale("cpu", tiny=True))
    reference, prepared = compute_reference(setup), setup.prepare(SDPA)
    compile_model(prepared.model, how, prepared.masks, traced_only=False)
    prepared = replace(prepared, entry=replace(SDPA, compiled=how))
    result = first_round(setup, prepared, reference, TINY_ROUNDS[0])
    torch._dynamo.reset()
    assert result.status == "ok" and result.masks == (("none",) if how == "layers" else ("bool",))
