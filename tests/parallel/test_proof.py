"""Two processes train as one: losses and gathered gradients are equal, and the right engine runs.

One pair of processes makes all runs; the references run here.  A step has eight rows: one process
computes them at once (`whole`) or in two batches of four (`parts`), two processes compute four
each, or all eight together.  The masks of a masked language model are drawn for a batch, and router
losses are means over a batch: these are compared with two batches.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")

import torch

from tests.parallel.proof import FAILED, GRADIENTS, Job, run, written
from tests.toytree import REPOSITORY, environment
from tests.train.runs import history, losses, weights

pytestmark = [
    pytest.mark.skipif(
        torch.cuda.device_count() == 1, reason="two processes need two GPUs, or none"
    ),
    pytest.mark.timeout(1200),
]
CLOSE = 1e-6
PATIENCE = 900  # seconds for all runs of a pair: a minute where nothing else runs
STEPS = {
    "max_steps": 3,
    "length": 32,
    "optim": "sgd",
    "learning_rate": 0.1,
    "lr_scheduler_type": "constant",
}
SELECTIVE = {
    "activation_checkpointing": True,
    "activation_checkpointing_kwargs": {"policy": "selective"},
}
MODELS = {
    "llama": ("llama_loss", {**SELECTIVE}),
    "bert": ("bert_mlm", {"task": "masked-lm", "activation_checkpointing": True}),
    "mixtral": (
        "mixtral",
        {"activation_checkpointing": True, "config": ["num_local_experts=4"]},
    ),
    "mixtral_losses": (
        "mixtral",
        {"config": ["num_local_experts=4", "output_router_logits=true"]},
    ),
    "llama_moe": ("llama_moe", {"config": ["num_experts=4"]}),
    "bert_moe": ("bert_moe", {"task": "masked-lm", "config": ["num_experts=4"]}),
    "qwen3_moe": (
        "qwen3_moe_checkpoint_loss",
        {"activation_checkpointing": True, "config": ["num_experts=4"]},
    ),
}
TOGETHER = ("tp",)  # both processes compute all rows
FAST = ("fsdp2 llama",)
SLOW = ("ddp llama", "ep mixtral")
SLOW += ("ddp llama_moe", "fsdp2 mixtral", "tp llama", "tp llama_moe")
SLOW += ("ddp bert", "fsdp2 bert", "fsdp2 llama_moe", "tp mixtral", "ep llama_moe")
SLOW += (
    "ddp mixtral",
    "ddp mixtral_losses",
    "ddp bert_moe",
    "ddp qwen3_moe",
    "fsdp2 bert_moe",
)
SLOW += (
    "tp qwen3_moe",
    "ep qwen3_moe",
    "tp mixtral_losses",
    "ep bert_moe",
    "ep mixtral_losses",
)
SAVED = {
    "max_steps": 6,
    "length": 32,
    "save_steps": 2,
}  # with AdamW and a falling learning rate


def of_pair(pair):
    engine, model = pair.split()
    name, switches = MODELS[model]
    rows = "8" if engine in TOGETHER else "4"
    return Job(
        f"{engine} {model}",
        name,
        engine,
        {**STEPS, **switches, "per_device_train_batch_size": rows},
    )


def reference(kind, model):
    name, switches = MODELS[model]
    rows = (
        {"per_device_train_batch_size": "8"}
        if kind == "whole"
        else {"per_device_train_batch_size": "4", "gradient_accumulation_steps": 2}
    )
    return Job(f"{kind} {model}", name, "single", {**STEPS, **switches, **rows})


REFUSED = {
    "tp without a plan": (
        Job("", "bert", "tp", {**STEPS, "task": "masked-lm"}),
        "PG842",
        "tensor parallelism",
    ),
    "ep without experts": (Job("", "llama", "ep", STEPS), "PG842", "expert parallelism"),
    "odd heads": (
        Job("", "llama", "tp", {**STEPS, "config": ["num_key_value_heads=1"]}),
        "PG832",
        "num_key_value_heads is 1",
    ),
    "tied weights": (
        Job("", "llama", "tp", {**STEPS, "config": ["tie_word_embeddings=true"]}),
        "PG832",
        "does not lay LlamaForCausalLM out: 'lm_head.weight'",
    ),
    "odd experts": (Job("", "mixtral", "ep", STEPS), "PG832", "Cannot evenly shard 5 experts"),
    "a batch to be found": (
        Job("", "llama", "ddp", {**STEPS, "auto_find_batch_size": True}),
        "PG837",
        "works on one process",
    ),
    "fsdp2 fell back": (
        Job("", "llama", "fsdp2", STEPS, spoilt="nothing is laid out"),
        "PG834",
        "is not sharded by itself",
    ),
    "tp fell back": (
        Job("", "llama", "tp", STEPS, spoilt="nothing is laid out"),
        "PG834",
        "its plan says",
    ),
    "fsdp2 with a whole weight": (
        Job("", "llama", "fsdp2", STEPS, spoilt="a weight is whole"),
        "PG834",
        "whole",
    ),
    "tp with a whole weight": (
        Job("", "llama", "tp", STEPS, spoilt="a weight is whole"),
        "PG834",
        "whole",
    ),
    "ep with a whole weight": (
        Job(
            "",
            "mixtral",
            "ep",
            {**STEPS, "config": ["num_local_experts=4"]},
            spoilt="a weight is whole",
        ),
        "PG834",
        "whole",
    ),
    "fsdp2 of the root alone": (
        Job(
            "",
            "bert",
            "fsdp2",
            {**STEPS, "task": "masked-lm"},
            spoilt="no layer is sharded by itself",
        ),
        "PG834",
        "not sharded by itself",
    ),
    "other rows": (
        Job("", "llama", "ddp", STEPS, spoilt="another text"),
        "PG815",
        "process 1 reads other data",
    ),
    "other weights": (
        Job("", "llama", "ddp", STEPS, spoilt="another weight"),
        "PG835",
        "process 1 has other weights",
    ),
}
# What one process began, and which engine is to go on with it.
MOVED = {"moved": "ddp", "spread": "fsdp2"}


def launched(jobs, place, processes=2):
    place.mkdir(exist_ok=True)
    list_of_jobs = place / "jobs.json"
    list_of_jobs.write_text(written(jobs), encoding="utf-8")
    argv = [
        sys.executable,
        "-m",
        "tests.parallel.proof",
        str(processes),
        str(list_of_jobs),
        str(place),
    ]
    done = subprocess.run(
        argv,
        cwd=REPOSITORY,
        env=environment(OMP_NUM_THREADS="1", PYTHONPATH=str(REPOSITORY)),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return place


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What needs two processes and is made in `make test`."""
    place = tmp_path_factory.mktemp("two")
    named = [Job(**{**vars(job), "name": name}) for name, (job, _, _) in REFUSED.items()]
    return launched([*map(of_pair, FAST), *named], place)


@pytest.fixture(scope="module")
def slow_runs(tmp_path_factory):
    saved = [Job("unbroken", "llama_loss", "fsdp2", {**SAVED, "per_device_train_batch_size": "4"})]
    saved += [
        Job("broken", "llama_loss", "fsdp2", {**SAVED, "per_device_train_batch_size": "4"}, after=3)
    ]
    saved += [Job("broken", "llama_loss", "fsdp2", resume=True)]
    place, eight = tmp_path_factory.mktemp("slow"), {"per_device_train_batch_size": "8"}
    for name in MOVED:  # begun by one process, gone on with by two, and ended by one
        run(Job(name, "llama_loss", "single", {**SAVED, **eight}, after=3), place)
    four = {"per_device_train_batch_size": "4"}
    saved += [
        Job(name, "llama_loss", engine, four, after=5, resume=True)
        for name, engine in MOVED.items()
    ]
    launched([*map(of_pair, SLOW), *saved], place)
    run(Job("moved", "llama_loss", "single", eight, resume=True), place)
    run(Job("one", "llama_loss", "single", {**SAVED, **eight}), place)
    return place


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """Runs of one process, made when they are asked for."""
    place, made = tmp_path_factory.mktemp("one"), {}

    def of(kind, model):
        if (kind, model) not in made:
            made[kind, model] = run(reference(kind, model), place)
        return made[kind, model]

    return of


def compare(folder, beside):
    """Return the largest relative difference of losses, and of the norms of all gradients."""
    ours, theirs = losses(folder), losses(beside)
    assert len(ours) == len(theirs) == STEPS["max_steps"]
    of_losses = max(abs(one - other) / abs(other) for one, other in zip(ours, theirs, strict=True))
    ours, theirs = (torch.load(each / GRADIENTS) for each in (folder, beside))
    of_gradients = [differ(one, other) for one, other in zip(ours, theirs, strict=True)]
    assert len(of_gradients) == STEPS["max_steps"]
    return of_losses, max(of_gradients)


def differ(ours, theirs):
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] is None] == [
        name for name in theirs if theirs[name] is None
    ]
    names = [name for name in theirs if theirs[name] is not None]
    norm = sum(theirs[name].double().square().sum() for name in names).sqrt()
    return float(
        sum((ours[name].double() - theirs[name].double()).square().sum() for name in names).sqrt()
        / norm
    )


def attempts_of(folder):
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))["attempts"]


def asserted(folder):
    return attempts_of(folder)[-1]["engine"]


def insist(folder, pair, references):
    engine, model = pair.split()
    kind = "whole" if engine in TOGETHER else "parts"
    of_losses, of_gradients = compare(folder, references(kind, model))
    assert of_losses <= CLOSE and of_gradients <= CLOSE, (of_losses, of_gradients)
    checked = asserted(folder)
    assert (checked["engine"], checked["processes"]) == (engine, 2)
    assert checked["backend"] == ("nccl" if torch.cuda.is_available() else "gloo")
    whole, held = checked["bytes_of_model"], checked["bytes_of_process"]
    if engine == "ddp":
        assert held == [whole, whole] and not checked["weights"]
    else:
        # Every weight of FSDP2 is shared; norms and routers are not by tensor parallelism.
        assert (
            checked["weights"]
            and max(held) <= (0.51 if engine in ("fsdp2", "ep") else 0.55) * whole
        )
        assert sum(held) >= whole


@pytest.mark.parametrize("pair", FAST)
def test_two_processes_train_as_one(runs, references, pair):
    insist(runs / pair, pair, references)


@pytest.mark.slow
@pytest.mark.parametrize("pair", SLOW)
def test_two_processes_train_as_one_slowly(slow_runs, references, pair):
    insist(slow_runs / pair, pair, references)


def insist_on_one_batch(folder, pair, references):
    """Without randomness or means per batch, results also equal those of all rows at once."""
    of_losses, of_gradients = compare(folder, references("whole", pair.split()[1]))
    assert of_losses <= CLOSE and of_gradients <= CLOSE, (of_losses, of_gradients)


@pytest.mark.parametrize("pair", FAST)
def test_rows_that_are_shared_are_one_batch(runs, references, pair):
    insist_on_one_batch(runs / pair, pair, references)


@pytest.mark.slow
@pytest.mark.parametrize("pair", ["ddp llama", "ep mixtral"])
def test_rows_that_are_shared_are_one_batch_slowly(slow_runs, references, pair):
    insist_on_one_batch(slow_runs / pair, pair, references)


@pytest.mark.slow
def test_the_losses_of_routers_are_of_a_batch(slow_runs, references):
    """docs/distributed.md says how far their loss is from that of all rows at once."""
    of_losses, of_gradients = compare(slow_runs / "ddp llama_moe", references("whole", "llama_moe"))
    assert 1e-5 < of_gradients < 1e-2 and of_losses < 1e-4
    assert compare(slow_runs / "tp llama_moe", references("whole", "llama_moe"))[1] <= CLOSE


def test_a_difference_would_be_seen(references):
    """The tests above could not fail if losses and gradients did not depend on the rows."""
    assert compare(references("parts", "bert"), references("whole", "bert"))[1] > 1e-2


def test_what_is_measured_is_of_all_processes(runs, references):
    one = history(references("whole", "llama"))[-1]
    for pair in FAST:
        two = history(runs / pair)[-1]
        assert two["num_input_tokens_seen"] == one["num_input_tokens_seen"] > 0


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_before_a_step(runs, name):
    figures = json.loads((runs / name / FAILED).read_text(encoding="utf-8"))
    _, code, text = REFUSED[name]
    assert figures["code"] == code and text in figures["text"], figures
    assert not (runs / name / "trainer_state.json").exists()


@pytest.mark.slow
def test_a_run_that_is_gone_on_with_is_an_unbroken_one(slow_runs):
    unbroken = losses(slow_runs / "unbroken")
    assert losses(slow_runs / "broken")[-4:] == unbroken[2:]
    assert weights(slow_runs / "broken") == weights(slow_runs / "unbroken")
    checkpoint = slow_runs / "broken" / "checkpoint-4"
    assert (
        len(list(checkpoint.glob("shard-*.safetensors"))) == 2
        and not (checkpoint / "model.safetensors").exists()
    )


@pytest.mark.slow
def test_from_one_process_to_two_and_back(slow_runs):
    """Steps 1 and 2 by one process, 3 and 4 by two, 5 and 6 by one."""
    folder = slow_runs / "moved"
    assert len(attempts_of(folder)) == 3
    ours = losses(folder)
    theirs = losses(slow_runs / "one")
    assert len(ours) == len(theirs) == 6
    assert max(abs(one - other) / other for one, other in zip(ours, theirs, strict=True)) <= CLOSE
    before, after = (torch.load(slow_runs / name / GRADIENTS)[-1] for name in ("one", "moved"))
    # AdamW divides by small second moments: not only rounding of one step.
    assert differ(after, before) <= 1e-5


@pytest.mark.slow
def test_another_engine_does_not_go_on(slow_runs):
    failure = json.loads((slow_runs / "spread" / FAILED).read_text(encoding="utf-8"))
    assert failure["code"] == "PG848" and "is of ddp or single" in failure["text"], failure


def test_the_environment_of_the_tests_is_no_launcher():
    assert "WORLD_SIZE" not in os.environ and Path(sys.executable).exists()
