"""DeepSpeed's ZeRO on two processes trains as one process, at the right stage.

One pair of processes makes all runs.  A step has eight rows: two processes compute four each, and
one process computes eight, or two batches of four where something depends on the batch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")
pytest.importorskip("deepspeed", reason="pip install 'patchgen[deepspeed]'")

from tests.parallel.proof import FAILED, GRADIENTS, Job, run, written
from tests.parallel.test_proof import SELECTIVE, asserted
from tests.toytree import REPOSITORY, environment
from tests.train.runs import losses, weights

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

CLOSE = 1e-6
PATIENCE = 1500  # seconds for all runs of the pair; its first one compiles
STEPS = {
    "max_steps": 3,
    "length": 32,
    "optim": "sgd",
    "learning_rate": 0.1,
    "lr_scheduler_type": "constant",
    "per_device_train_batch_size": "4",
}
TIED = ["tie_word_embeddings=true"]
MODELS = {
    "llama": ("llama_loss", {**SELECTIVE}),
    "tied": ("llama_loss", {"activation_checkpointing": True, "config": TIED}),
    "bert": ("bert_mlm", {"task": "masked-lm", "activation_checkpointing": True}),
    "mixtral": (
        "mixtral",
        {"activation_checkpointing": True, "config": ["num_local_experts=4"]},
    ),
    "llama_moe": ("llama_moe", {"config": ["num_experts=4"]}),
}
ENGINES = ("zero1", "zero2", "zero3")
OFFLOADED = (
    "zero1,offload=optimizer",
    "zero2,offload=optimizer",
    "zero3,offload=optimizer",
    "zero3,offload=parameters",
)
PAIRS = [(engine, model) for engine in ENGINES for model in MODELS] + [
    (engine, "llama") for engine in OFFLOADED
]
AT_ONCE = ("llama", "tied", "mixtral")
SAVED = {
    "max_steps": 6,
    "length": 32,
    "save_steps": 2,
    "per_device_train_batch_size": "4",
}  # AdamW, a falling learning rate
BROKEN = ("zero1", "zero3", "zero3,offload=parameters")
FELL_BACK = {
    "stage 2": ("zero3", "DeepSpeed runs stage 2"),
    "stage 1": ("zero2", "DeepSpeed runs stage 1"),
    "no ZeRO": ("zero1", "DistributedDataParallel"),
    "nothing is offloaded": ("zero2,offload=optimizer", "the optimizer's states are on the device"),
}
# What a checkpoint of the first is not gone on with.
ELSEWHERE = {"zero1": "zero3", "zero3": "ddp"}


def jobs():
    for engine, model in PAIRS:
        name, switches = MODELS[model]
        yield Job(f"{engine} {model}", name, engine, {**STEPS, **switches})
    for spoilt, (engine, _) in FELL_BACK.items():
        yield Job(spoilt, "llama", engine, STEPS, spoilt=spoilt)
    for precise in ("zero1", "zero3"):
        yield Job(f"{precise} bf16", "llama_loss", precise, {**STEPS, "bf16": True})
    for engine in BROKEN:
        yield Job(f"unbroken {engine}", "llama_loss", engine, SAVED)
        yield Job(f"broken {engine}", "llama_loss", engine, SAVED, after=3)
        if engine in ELSEWHERE:
            yield Job(f"elsewhere {engine}", "llama_loss", engine, SAVED, after=3)
            yield Job(f"elsewhere {engine}", "llama_loss", ELSEWHERE[engine], resume=True)
        yield Job(f"broken {engine}", "llama_loss", engine, resume=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("zero")
    listed = place / "jobs.json"
    listed.write_text(written(list(jobs())), encoding="utf-8")
    argv = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    argv += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    argv += ["-m", "tests.parallel.zero_proof", str(listed), str(place)]
    paths = os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    done = subprocess.run(
        argv,
        cwd=REPOSITORY,
        env=environment(OMP_NUM_THREADS="1", PYTHONPATH=paths),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return place


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """The run of a model on one process, made when it is asked for."""
    place, made = tmp_path_factory.mktemp("one"), {}

    def of(model):
        if model not in made:
            name, switches = MODELS[model]
            rows = (
                {"per_device_train_batch_size": "8"}
                if model in AT_ONCE
                else {"gradient_accumulation_steps": 2}
            )
            made[model] = run(Job(model, name, "single", {**STEPS, **switches, **rows}), place)
        return made[model]

    return of


@pytest.mark.parametrize(("engine", "model"), PAIRS)
def test_two_processes_learn_as_one(runs, one, engine, model):
    ours, theirs = runs / f"{engine} {model}", one(model)
    assert len(losses(ours)) == STEPS["max_steps"]
    apart = [abs(mine - other) for mine, other in zip(losses(ours), losses(theirs), strict=True)]
    assert max(apart) < CLOSE * losses(theirs)[0], apart
    for step, (mine, other) in enumerate(
        zip(torch.load(ours / GRADIENTS), torch.load(theirs / GRADIENTS), strict=True), 1
    ):
        assert mine.keys() == other.keys()
        largest = max(float(each.abs().max()) for each in other.values())
        for name, gradient in other.items():
            assert float((mine[name] - gradient).abs().max()) < CLOSE * largest, (step, name)


@pytest.mark.parametrize(("engine", "model"), PAIRS)
def test_each_process_holds_its_part(runs, engine, model):
    report = asserted(runs / f"{engine} {model}")
    name, _, offload = engine.partition(",")
    assert (report["engine"], report["processes"], report["backend"]) == (name, 2, "gloo")
    whole = report["bytes_of_model"]
    assert sum(report["bytes_updated"]) == pytest.approx(whole, rel=1e-3)
    assert max(report["bytes_updated"]) == pytest.approx(whole / 2, rel=1e-3)
    if name == "zero3":
        assert (
            max(report["bytes_of_process"]) == pytest.approx(whole / 2, rel=1e-2)
            and report["weights"] > 10
        )
    else:
        assert report["bytes_of_process"] == [whole, whole] and report["weights"] == 0


@pytest.mark.parametrize("spoilt", FELL_BACK)
def test_a_fallback_is_refused(runs, spoilt):
    failure = json.loads((runs / spoilt / FAILED).read_text(encoding="utf-8"))
    assert failure["code"] == "PG834" and FELL_BACK[spoilt][1] in failure["text"]
    assert losses_so_far(runs / spoilt) == []


def losses_so_far(folder):
    return losses(folder) if (folder / "trainer_state.json").is_file() else []


@pytest.mark.parametrize("engine", ["zero1", "zero3"])
def test_weights_stay_in_float32_under_bf16(runs, engine):
    from safetensors.torch import load_file

    folder = runs / f"{engine} bf16"
    saved = load_file(next(folder.glob("*.safetensors")))
    assert {each.dtype for each in saved.values()} == {torch.float32}
    assert any((each != each.bfloat16().float()).any() for each in saved.values()), "rounded"
    assert losses(folder)[-1] < losses(folder)[0]


@pytest.mark.parametrize("engine", BROKEN)
def test_a_broken_run_ends_as_an_unbroken_one(runs, engine):
    assert weights(runs / f"broken {engine}") == weights(runs / f"unbroken {engine}")
    assert losses(runs / f"broken {engine}")[-1] == losses(runs / f"unbroken {engine}")[-1]


@pytest.mark.parametrize("engine", ELSEWHERE)
def test_another_engine_does_not_go_on(runs, engine):
    failure = json.loads((runs / f"elsewhere {engine}" / FAILED).read_text(encoding="utf-8"))
    assert failure["code"] == "PG848" and f"is of {engine} on 2 processes" in failure["text"]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_saved_model_is_whole(runs, one, engine):
    from safetensors.torch import load_file

    ours, theirs = (
        load_file(next(folder.glob("*.safetensors")))
        for folder in (runs / f"{engine} mixtral", one("mixtral"))
    )
    assert ours.keys() == theirs.keys()
    assert all((ours[name] - theirs[name]).abs().max() < CLOSE for name in theirs)
