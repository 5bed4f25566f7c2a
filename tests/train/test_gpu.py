"""Switches that need a GPU, and what differs there: too little memory is an error."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")

import torch

from patchgen.syntax.errors import PatchgenError
from patchgen.training.loop.folder import RunFolder
from tests.train.runs import broken_run, losses, resume, run, weights

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
GPU = {"device": "cuda"}
WIDE = ("hidden_size=512", "intermediate_size=2048")


@pytest.mark.parametrize("precision", ["tf32", "amp-fp16", "amp-bf16", "pure-bf16"])
def test_precision(tmp_path, precision):
    if precision == "tf32" and torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("before Ampere")
    plain, ended = (
        run(tmp_path / "plain", **GPU, config=WIDE),
        run(tmp_path / "run", **GPU, config=WIDE, precision=precision),
    )
    assert losses(ended.folder) != losses(plain.folder)
    assert losses(ended.folder) == pytest.approx(losses(plain.folder), rel=1e-2)


def test_states_in_8_bits(tmp_path):
    if find_spec("bitsandbytes") is None:
        pytest.skip("no bitsandbytes")
    ended = run(tmp_path / "run", **GPU, optim="8bit", save_every=4, config=WIDE)
    states = torch.load(ended.folder / "checkpoint-4" / "optimizer.pt", weights_only=True)[
        "state"
    ].values()
    assert any(
        value.dtype is torch.uint8
        for state in states
        for value in state.values()
        if torch.is_tensor(value)
    )


def test_batch_size_auto(tmp_path):
    free = torch.cuda.mem_get_info()[0] / 2**30
    ended = run(
        tmp_path / "run",
        **GPU,
        batch_size="auto",
        memory=min(1.0, free / 2),
        config=WIDE,
        steps=2,
        length=128,
    )
    found = RunFolder(ended.folder).found()["batch_size"]
    assert found & (found - 1) == 0 and ended.figures["peak_bytes"] < 1.1 * 2**30


def test_a_batch_that_does_not_fit_is_an_error_with_a_way_on(tmp_path):
    before = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, 0.3 * 2**30 / before))
    try:
        with pytest.raises(PatchgenError, match="PG816") as refused:
            run(
                tmp_path / "run",
                **GPU,
                batch_size="512",
                length=64,
                config=WIDE,
                packing="concatenated",
                steps=1,
            )
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert "--batch-size auto" in refused.value.problem.hint


def test_a_resumed_run_ends_with_the_same_bits(tmp_path):
    given = {**GPU, "steps": 9, "save_every": 4, "deterministic": True}
    try:
        whole = run(tmp_path / "whole", **given)
        ended = resume(broken_run(tmp_path / "broken", after=6, **given))
    finally:
        torch.use_deterministic_algorithms(False)
    assert weights(ended.folder) == weights(whole.folder)


def test_compiled_with_pinned_rows(tmp_path):
    how = {**GPU, "packing": "concatenated", "loader": "workers=2,pinned"}
    ended, plain = run(tmp_path / "run", **how, compile="regional"), run(tmp_path / "plain", **how)
    assert losses(ended.folder) == pytest.approx(losses(plain.folder), rel=1e-3)
