"""DeepSpeed's configuration and refusals, without DeepSpeed."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")

from patchgen.syntax.errors import PatchgenError
from patchgen.training.parallel.engine import Engine, Launch
from patchgen.training.parallel.zero import (
    check_deepspeed,
    make_zero_arguments,
)


def engine(name="zero3", world=2, offload=""):
    return Engine(name, Launch(world), offload=offload)


def configuration(engine, device):
    return make_zero_arguments(engine, False, device)["deepspeed"]


def test_other_engines_get_no_settings():
    assert make_zero_arguments(engine("fsdp2"), True, "cpu") == {}
    check_deepspeed(engine("ddp"), "cpu")


@pytest.mark.parametrize("zero_stage", [1, 2, 3])
def test_stages(zero_stage):
    settings = configuration(engine(f"zero{zero_stage}"), "cpu")
    assert settings["zero_optimization"]["stage"] == zero_stage
    assert ("stage3_prefetch_bucket_size" in settings["zero_optimization"]) == (zero_stage == 3)
    assert (
        "torch_autocast" not in settings
        and "offload_optimizer" not in settings["zero_optimization"]
    )


def test_weights_stay_in_float32():
    settings = make_zero_arguments(engine("zero2"), True, "cpu")
    assert settings["bf16"] is False and settings["deepspeed"]["torch_autocast"] == {
        "enabled": True,
        "dtype": "bfloat16",
    }


def test_offloading():
    optimizer = configuration(engine("zero2", offload="optimizer"), "cuda")["zero_optimization"]
    assert (
        optimizer["offload_optimizer"] == {"device": "cpu", "pin_memory": True}
        and "offload_param" not in optimizer
    )
    both = configuration(engine(offload="parameters"), "cpu")["zero_optimization"]
    assert (
        both["offload_optimizer"] == both["offload_param"] == {"device": "cpu", "pin_memory": False}
    )


def test_without_deepspeed(monkeypatch):
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    monkeypatch.setitem(sys.modules, "deepspeed.accelerator", None)
    with pytest.raises(PatchgenError, match="PG845") as refused:
        check_deepspeed(engine(), "cpu")
    assert "[deepspeed]" in refused.value.problem.hint
