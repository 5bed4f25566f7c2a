"""Does what `proof` does for DeepSpeed, which clips gradients in its own step.

Gradients are gathered before the step and clipped here, as Trainer reports them on one process.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
from transformers import TrainerCallback
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from patchgen.training.loop import run as jobs
from patchgen.training.parallel.zero import make_zero_arguments
from tests.parallel import proof


class Seeing(TrainerCallback):
    """Keeps the gradients of each step, whole."""

    kept: list[dict[str, torch.Tensor]] = []  # of the run that goes on

    def on_train_begin(self, args, state, control, **rest):
        Seeing.kept = []


def gathering(step):
    from deepspeed.utils import safe_get_full_grad

    def gathered(self, *args, **rest):
        if self.is_gradient_accumulation_boundary():
            whole = {
                name: safe_get_full_grad(weight).cpu()
                for name, weight in self.module.named_parameters()
            }
            norm = torch.linalg.vector_norm(
                torch.stack([torch.linalg.vector_norm(one) for one in whole.values()])
            )
            share = (self.gradient_clipping() / (norm + 1e-6)).clamp(max=1)
            Seeing.kept.append({name: one * share for name, one in whole.items()})
        return step(self, *args, **rest)

    return gathered


def of_stage(zero_stage):
    """What Trainer is told is of another stage, as if a library below had no other."""

    def spoilt(engine, bf16, device):
        given = make_zero_arguments(engine, bf16, device)
        given["deepspeed"]["zero_optimization"]["stage"] = zero_stage
        return given

    return lambda: proof.in_place_of(jobs, "make_zero_arguments", spoilt)


def on_the_device(engine, bf16, device):
    given = make_zero_arguments(engine, bf16, device)
    del given["deepspeed"]["zero_optimization"]["offload_optimizer"]
    return given


proof.SPOILT |= {
    "stage 2": of_stage(2),
    "stage 1": of_stage(1),
    "no ZeRO": lambda: proof.in_place_of(jobs, "make_zero_arguments", lambda *given: {}),
    "nothing is offloaded": lambda: proof.in_place_of(jobs, "make_zero_arguments", on_the_device),
}


def alone(run):
    """What Accelerate and transformers remember of DeepSpeed is meant for one run of a process."""

    def made(job, place):
        try:
            return run(job, place)
        finally:
            os.environ.pop("ACCELERATE_USE_DEEPSPEED", None)
            unset_hf_deepspeed_config()

    return made


if __name__ == "__main__":
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    torch.set_num_threads(1)
    from deepspeed import DeepSpeedEngine

    DeepSpeedEngine.step = gathering(DeepSpeedEngine.step)
    proof.Seeing = Seeing
    proof.run = alone(proof.run)
    listed = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    proof.main([proof.Job(**spoilt) for spoilt in listed], Path(sys.argv[2]))
