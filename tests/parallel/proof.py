"""A run that keeps its losses and gathered gradients, to compare several processes with one.

As a program it runs a list of jobs in one pair of processes, since imports and joining take longer
than the runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback
from transformers.trainer import DEFAULT_CALLBACKS

from patchgen.syntax.errors import PatchgenError
from patchgen.training.loop import run as jobs
from patchgen.training.loop.texts import prepare_data
from patchgen.training.parallel import distribute as spreading
from patchgen.training.parallel.distribute import distribute
from patchgen.training.parallel.engine import parse_engine
from patchgen.training.parallel.process_group import leave, wait
from tests.parallel.forked import forked
from tests.train.runs import doing, interrupt, resume
from tests.train.runs import run as train

GRADIENTS, FAILED = "gradients.pt", "failed.json"


@dataclass(frozen=True)
class Job:
    """One run: folder, engine and switches; interrupted `after` a step, or resumed with `resume`.

    `spoilt` names the change that makes another engine run than the one asked for.
    """

    name: str
    model: str
    engine: str = "auto"
    switches: Mapping[str, Any] = field(default_factory=dict)
    after: int = 0
    resume: bool = False
    spoilt: str = ""


class Seeing(TrainerCallback):
    """Keeps the gradients of each step, whole, as they are when the optimizer takes them."""

    kept: list[dict[str, torch.Tensor]] = []  # noqa: RUF012: of the run that goes on

    def on_train_begin(self, args, state, control, **rest):
        Seeing.kept = []

    def on_pre_optimizer_step(self, args, state, control, model, **rest):
        Seeing.kept.append({name: whole(weight.grad) for name, weight in model.named_parameters()})


@contextlib.contextmanager
def in_place_of(owner, name, other):
    before = getattr(owner, name)
    setattr(owner, name, other)
    try:
        yield
    finally:
        setattr(owner, name, before)


def with_a_whole_layer(model, engine, device):
    """Distribute the model, but leave one matrix of the first layer whole, against its plan."""
    model = distribute(model, engine, device)
    owner, name = next(
        (module, name)
        for path, module in model.named_modules()
        for name, weight in module.named_parameters(recurse=False)
        if isinstance(weight, DTensor) and ".0." in path
    )
    owner._parameters[name] = torch.nn.Parameter(getattr(owner, name).full_tensor().detach())
    return model


def with_one_weight_changed(model, engine, device):
    if engine.launch.rank:
        with torch.no_grad():
            next(model.parameters()).view(-1)[0] += 1e-3
    return distribute(model, engine, device)


def with_a_row_less(*given, **rest):
    data = prepare_data(*given, **rest)
    return replace(data, train=data.train[1:]) if os.environ["RANK"] == "1" else data


def gathering(mixed):
    return lambda model, engine, device: distribute(model, replace(engine, mixed=mixed), device)


# What a library might do: distribute nothing, so that Trainer uses DDP; leave a weight whole;
# shard the root only; build different weights on another process.
SPOILT = {
    "": contextlib.nullcontext,
    "nothing is laid out": lambda: in_place_of(
        jobs, "distribute", lambda model, engine, device: model
    ),
    "a weight is whole": lambda: in_place_of(jobs, "distribute", with_a_whole_layer),
    "no layer is sharded by itself": lambda: in_place_of(
        spreading, "make_layers_plan", lambda model: {}
    ),
    "weights are gathered in float32": lambda: in_place_of(
        jobs, "distribute", gathering(mixed=False)
    ),
    "weights are gathered in bfloat16": lambda: in_place_of(
        jobs, "distribute", gathering(mixed=True)
    ),
    "another text": lambda: in_place_of(jobs, "prepare_data", with_a_row_less),
    "another weight": lambda: in_place_of(jobs, "distribute", with_one_weight_changed),
}


def whole(gradient):
    if gradient is None:
        return None
    return (
        (gradient.full_tensor() if isinstance(gradient, DTensor) else gradient)
        .detach()
        .cpu()
        .clone()
    )


@contextlib.contextmanager
def seeing():
    DEFAULT_CALLBACKS.append(Seeing)
    try:
        yield
    finally:
        DEFAULT_CALLBACKS.remove(Seeing)


def run(job: Job, place: Path) -> Path:
    """The folder of the run, with the gradients of its steps."""
    path = place / job.name
    engine = parse_engine(job.engine, os.environ)
    breaking = doing(job.after, interrupt) if job.after else contextlib.nullcontext()
    with seeing(), SPOILT[job.spoilt](), breaking, contextlib.suppress(KeyboardInterrupt):
        if job.resume:
            resume(path, engine=job.engine, **job.switches)
        else:
            train(path, job.model, engine=job.engine, **job.switches)
    if engine.is_first:
        torch.save(Seeing.kept, path / GRADIENTS)
    wait(engine)
    return path


def main(listed: Sequence[Job], place: Path) -> None:
    """Run each; a refusal, which all processes share, is written down in the place of the run."""
    for job in listed:
        try:
            run(job, place)
        except PatchgenError as error:
            if os.environ.get("RANK") == "0":
                (place / job.name).mkdir(exist_ok=True)
                failure = {"code": error.problem.code, "text": str(error)}
                (place / job.name / FAILED).write_text(json.dumps(failure), encoding="utf-8")
        except Exception:
            traceback.print_exc()
            raise
    leave(parse_engine("auto", os.environ))


def written(listed: Sequence[Job]) -> str:
    return json.dumps([asdict(job) for job in listed])


if __name__ == "__main__":
    torch.set_num_threads(1)
    processes, jobs_of_all, place_of_all = sys.argv[1:]
    listed = [
        Job(**failure) for failure in json.loads(Path(jobs_of_all).read_text(encoding="utf-8"))
    ]
    forked(partial(main, listed, Path(place_of_all)), int(processes))
