"""Methods that need a GPU, and what differs there: too little memory is an error."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")
pytest.importorskip("datasets")

import torch

from patchgen.syntax.errors import PatchgenError
from tests.train.runs import broken_run, losses, resume, run, weights

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
WIDE = ["hidden_size=512", "intermediate_size=2048"]


@pytest.mark.parametrize("how", [{"tf32": True}, {"fp16": True}, {"bf16": True}])
def test_precision(tmp_path, how):
    run(tmp_path / "plain", config=WIDE)
    run(tmp_path / "run", config=WIDE, **how)
    assert losses(tmp_path / "run") != losses(tmp_path / "plain")
    assert losses(tmp_path / "run") == pytest.approx(losses(tmp_path / "plain"), rel=1e-2)


def test_the_fastest_attention_learns_the_same(tmp_path):
    packed = {"packing": "isolated", "config": WIDE, "bf16": True}
    run(tmp_path / "sdpa", "llama_packed", **packed)
    run(tmp_path / "fastest", "llama_packed", attention="fastest", **packed)
    assert losses(tmp_path / "fastest") == pytest.approx(losses(tmp_path / "sdpa"), rel=1e-2)


@pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="no bitsandbytes")
def test_states_in_8_bits(tmp_path):
    run(tmp_path / "run", optim="adamw_bnb_8bit", save_steps=4, config=WIDE)
    saved = torch.load(tmp_path / "run" / "checkpoint-4" / "optimizer.pt", weights_only=True)
    values = [value for state in saved["state"].values() for value in state.values()]
    assert any(torch.is_tensor(value) and value.dtype is torch.uint8 for value in values)


def test_a_batch_that_does_not_fit(tmp_path):
    """It is an error with a way on, or halved until it fits."""
    before = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, 0.3 * 2**30 / before))
    given = {"length": 64, "config": WIDE, "packing": "concatenated", "max_steps": 1}
    given["per_device_train_batch_size"] = 512
    try:
        with pytest.raises(PatchgenError, match="PG816") as refused:
            run(tmp_path / "run", **given)
        run(tmp_path / "halved", auto_find_batch_size=True, **given)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert "--auto_find_batch_size" in refused.value.problem.hint


def test_a_resumed_run_ends_with_the_same_bits(tmp_path):
    given = {"max_steps": 9, "save_steps": 4, "full_determinism": True}
    try:
        run(tmp_path / "whole", **given)
        resume(broken_run(tmp_path / "broken", after=6, **given))
    finally:
        torch.use_deterministic_algorithms(False)
    assert weights(tmp_path / "broken") == weights(tmp_path / "whole")


def test_compiled_with_rows_that_are_loaded_ahead(tmp_path):
    how = {"packing": "concatenated", "dataloader_num_workers": 2}
    run(tmp_path / "run", **how, torch_compile=True)
    run(tmp_path / "plain", **how)
    assert losses(tmp_path / "run") == pytest.approx(losses(tmp_path / "plain"), rel=1e-3)
