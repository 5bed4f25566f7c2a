"""A run that was interrupted and goes on ends with the weights of an uninterrupted run, bit for bit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")
pytest.importorskip("datasets")

from patchgen.training.loop.checkpoints import SEAL, checkpoint_step, find_checkpoint
from tests.toytree import REPOSITORY, environment
from tests.train.runs import SHORT, broken_run, history, losses, resume, run, weights, words

DROPOUT = ["hidden_dropout_prob=0.1", "attention_probs_dropout_prob=0.1"]
BERT = {"model": "bert", "task": "masked-lm", "config": DROPOUT}


def slow(arguments):
    return pytest.param(arguments, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        slow(BERT),
        slow({**BERT, "dataloader_num_workers": 2}),
        slow({**BERT, "model": "bert_moe"}),
        pytest.param(
            {"lora_rank": 4, "lora_kwargs": {"lora_dropout": 0.1}},
            marks=[pytest.mark.slow, pytest.mark.skipif(not find_spec("peft"), reason="peft")],
        ),
        slow({"bf16": True, "gradient_accumulation_steps": 2}),
        slow({"optim": "adafactor", "lr_scheduler_type": "cosine", "warmup_steps": 2}),
        {"muon": True},
        slow({"packing": "isolated", "model": "llama_packed"}),
        slow({"eval_strategy": "steps", "eval_steps": 2}),
    ],
    ids=str,
)
def test_weights_and_losses_are_those_of_an_unbroken_run(tmp_path, arguments):
    given = {"max_steps": 9, "save_steps": 4, **arguments}
    run(tmp_path / "whole", **given)
    resume(broken_run(tmp_path / "broken", after=6, **given))
    assert weights(tmp_path / "broken") == weights(tmp_path / "whole")
    assert losses(tmp_path / "broken") == losses(tmp_path / "whole")


@pytest.mark.parametrize("after", [slow(7), 8])
def test_over_the_end_of_an_epoch(tmp_path, after):
    text = tmp_path / "text.txt"
    text.write_text("A sentence of a very small text. " * 60, encoding="utf-8")
    given = {**BERT, "data": [str(text)], "per_device_train_batch_size": 4}
    given |= {"max_steps": 14, "save_steps": 7}
    run(tmp_path / "whole", **given)
    assert history(tmp_path / "whole")[-1]["epoch"] > 1
    resume(broken_run(tmp_path / "broken", after=after, **given))
    assert weights(tmp_path / "broken") == weights(tmp_path / "whole")


def test_a_run_that_was_killed_behind_its_last_step(tmp_path):
    given = {"max_steps": 6, "save_steps": 3, "eval_strategy": "epoch"}
    whole = run(tmp_path / "whole", **given)
    before = weights(tmp_path / "whole")
    (tmp_path / "whole" / "model.safetensors").unlink()
    ended = resume(tmp_path / "whole")
    assert weights(tmp_path / "whole") == before
    assert ended["steps"] == 6 and ended["eval_loss"] == pytest.approx(whole["eval_loss"])


def test_a_run_without_a_checkpoint_begins_anew(tmp_path, caplog):
    run(tmp_path / "whole")
    broken_run(tmp_path / "broken", after=2)
    resume(tmp_path / "broken")
    assert "starts again" in caplog.text
    assert weights(tmp_path / "broken") == weights(tmp_path / "whole")


@pytest.mark.slow
def test_after_kill_9(tmp_path):
    """The command line, killed in its middle, and beside it a run that nobody killed."""
    folder, whole = tmp_path / "killed", tmp_path / "whole"
    given = {**SHORT, "save_strategy": "steps", "save_steps": 2, "max_steps": 500, **BERT}
    argv = words(**{**given, "model": None, "output_dir": folder})
    with subprocess.Popen(
        [sys.executable, "-m", "patchgen", "train", "bert", *argv],
        cwd=REPOSITORY,
        env=environment(OMP_NUM_THREADS="1"),
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    ) as process:
        deadline = time.monotonic() + 200
        while len(list(folder.glob(f"checkpoint-*/{SEAL}"))) < 3:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    start = checkpoint_step(find_checkpoint(folder))
    assert start >= 6
    from tests.train.runs import doing, interrupt

    with doing(start + 3, interrupt), pytest.raises(KeyboardInterrupt):
        resume(folder)
    broken_run(whole, after=start + 3, **{**given, **BERT})
    name = f"checkpoint-{start + 2}/model.safetensors"
    assert (folder / name).read_bytes() == (whole / name).read_bytes()
    shutil.rmtree(folder)
