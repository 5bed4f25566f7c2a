"""Each switch that a CPU can run, with the evidence that it did what it says."""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")

import torch
from safetensors.torch import load_file
from torch.nn.modules.module import register_module_forward_hook
from transformers import TrainerCallback
from transformers.trainer import DEFAULT_CALLBACKS

from patchgen.syntax.errors import PatchgenError
from patchgen.training.device_memory import GIB, peak_memory, reset_peak_memory
from patchgen.training.loop.folder import RunFolder
from tests.train.runs import Remembered, losses, run


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The run that the others are compared with."""
    return run(tmp_path_factory.mktemp("plain") / "run")


@pytest.fixture
def calls():
    """How often modules of each class ran forward, and in which types their outputs were."""
    counted: Counter[str] = Counter()
    hook = register_module_forward_hook(
        lambda module, _, output: counted.update(
            [type(module).__name__, str(getattr(output, "dtype", ""))]
        )
    )
    yield counted
    hook.remove()


def trainer_optimizer(folder):
    return torch.load(folder / "checkpoint-4" / "optimizer.pt", weights_only=True)


@pytest.mark.parametrize(
    ("model", "task"),
    [
        slow("llama", "causal-lm"),
        ("llama_moe", "causal-lm"),
        slow("bert", "masked-lm"),
        ("bert_moe", "masked-lm"),
        slow("bert", "classification"),
        ("llama_loss", "classification"),
    ],
)
def test_task(tmp_path, model, task):
    ended = run(tmp_path / "run", model, task=task, learning_rate=5e-3)
    begin = math.log(3) if task == "classification" else math.log(1024)
    assert abs(losses(ended.folder)[0] - begin) < 0.3  # it knows nothing yet
    assert ended.figures["eval_loss"] < (begin if task != "classification" else begin + 0.1)
    assert (0 < ended.figures.get("eval_accuracy", 0) < 1) == (task == "classification")


def test_a_variant_trains_as_its_parent_does(tmp_path, plain):
    assert losses(run(tmp_path / "run", "llama").folder) == pytest.approx(
        losses(plain.folder), rel=1e-5
    )


def test_config_and_vocabulary(tmp_path):
    ended = run(
        tmp_path / "run", config=("num_hidden_layers=1", "rms_norm_eps=1e-5"), vocabulary=300
    )
    found = RunFolder(ended.folder).found()
    assert (
        found["configuration"]["num_hidden_layers"] == 1
        and found["configuration"]["rms_norm_eps"] == 1e-5
    )
    assert found["vocabulary"] == found["configuration"]["vocab_size"] == 300


def test_from_a_checkpoint(tmp_path, plain):
    ended = run(tmp_path / "run", tiny=False, start=str(plain.folder / "model"))
    assert losses(ended.folder)[0] < losses(plain.folder)[0] - 0.01  # it has learned already
    same = run(tmp_path / "named", str(plain.folder / "model"), tiny=False, steps=1)
    assert losses(same.folder) == pytest.approx(losses(ended.folder)[:1], rel=1e-5)


def test_a_mixture_begins_as_the_dense_model(tmp_path):
    dense = run(tmp_path / "dense", "bert", task="masked-lm", learning_rate=0.0)
    begin = {
        "tiny": False,
        "start": str(dense.folder / "model"),
        "learning_rate": 0.0,
        "task": "masked-lm",
    }
    mixture = run(tmp_path / "mixture", "bert_moe", config=("num_experts=4",), **begin)
    assert mixture.figures["eval_loss"] == pytest.approx(dense.figures["eval_loss"], rel=1e-5)
    assert RunFolder(mixture.folder).found()["configuration"]["num_experts"] == 4


@pytest.mark.slow
def test_batch_size_auto_takes_the_largest_that_fits(tmp_path):
    text, watch = tmp_path / "text.txt", Remembered()
    text.write_text("\n\n".join(f"Passage {n}." for n in range(60)), encoding="utf-8")
    ended = run(tmp_path / "run", watch=watch, batch_size="auto", data=(str(text),), steps=1)
    found = RunFolder(ended.folder).found()
    rows = found["data"]["rows"][0]
    assert found["batch_size"] == 2 ** int(
        math.log2(rows)
    )  # a tiny model: all of them fit, and no more are there
    assert f"batch of {found['batch_size']} rows" in watch.notes[0]


@pytest.mark.slow
def test_batch_size_auto_keeps_within_the_memory_that_it_is_given(tmp_path):
    wide = {
        "data": (),
        "length": 128,
        "steps": 1,
        "vocabulary": 2048,
        "config": ("hidden_size=128", "intermediate_size=512"),
    }
    reset_peak_memory("cpu")  # else it is that of whatever test was before
    memory = peak_memory("cpu") / GIB + 0.25
    ended = run(tmp_path / "run", batch_size="auto", memory=memory, **wide)
    found = RunFolder(ended.folder).found()
    assert 1 <= found["batch_size"] < 256
    assert ended.figures["peak_bytes"] < (memory + 0.1) * GIB


class Held(TrainerCallback):
    """What is held when a batch has been computed: gradients, and states of the optimizer."""

    found: set[tuple[bool, bool]] = set()

    def on_step_begin(self, args, state, control, model, optimizer, **rest):
        Held.found.add((False, bool(optimizer.optimizer.state)))

    def on_substep_end(self, args, state, control, model, optimizer, **rest):
        Held.found.add((next(model.parameters()).grad is not None, bool(optimizer.optimizer.state)))


@pytest.mark.parametrize(
    ("batches", "most"), [(1, (False, True)), (4, (True, True))], ids=["one", "several"]
)
def test_what_fits_is_tried_with_all_that_a_step_holds(tmp_path, monkeypatch, batches, most):
    """A batch that fits beside the weights need not fit beside the optimizer's states."""
    monkeypatch.setattr(Held, "found", set())
    DEFAULT_CALLBACKS.append(Held)
    try:
        with pytest.raises(PatchgenError, match="PG816"):  # after steps with one row
            run(tmp_path / "run", batch_size="auto", memory=0.01, grad_accum=batches)
    finally:
        DEFAULT_CALLBACKS.remove(Held)
    assert most in Held.found


@pytest.mark.parametrize("batch", ["auto", slow("512")])
def test_a_batch_that_cannot_fit(tmp_path, batch):
    wide = {
        "data": (),
        "length": 128,
        "steps": 1,
        "vocabulary": 2048,
        "config": ("hidden_size=128", "intermediate_size=512"),
    }
    reset_peak_memory("cpu")
    with pytest.raises(PatchgenError, match="PG816") as refused:
        run(
            tmp_path / "run",
            batch_size=batch,
            memory=0.01 if batch == "auto" else peak_memory("cpu") / GIB,
            **wide,
        )
    assert (
        "are available" in str(refused.value) and "--checkpoint full" in refused.value.problem.hint
    )


def test_a_batch_of_more_rows_than_there_are(tmp_path):
    with pytest.raises(PatchgenError, match="PG813.*the text gives"):
        run(tmp_path / "run", batch_size="1000000")


def test_a_model_that_cannot_fit(tmp_path):
    sizes = ("hidden_size=65536", "intermediate_size=262144", "num_hidden_layers=200")
    with pytest.raises(PatchgenError, match="PG816.*take"):
        run(tmp_path / "run", config=sizes)


def test_accumulated_batches_are_one_batch(tmp_path):
    whole = run(tmp_path / "whole", batch_size="8")
    parts = run(tmp_path / "parts", batch_size="2", grad_accum=4)
    assert losses(parts.folder) == pytest.approx(losses(whole.folder), rel=1e-5)
    assert parts.figures["tokens"] == whole.figures["tokens"]


@pytest.mark.parametrize(
    ("model", "policy", "again"),
    [
        ("llama", "full", 3),
        slow("llama", "none", 0),
        slow("llama_loss", "every=2", 2),
        slow("llama", "selective", 3),
    ],
)
def test_checkpointed_layers_run_twice_and_change_nothing(tmp_path, calls, model, policy, again):
    ended = run(tmp_path / "run", model, checkpoint=policy, batch_size="1", steps=2)
    without = run(tmp_path / "without", model, batch_size="1", steps=2)
    assert losses(ended.folder) == losses(without.folder)
    # Three layers in each forward pass, and those recomputed in two backward passes.
    assert calls["LlamaAttention"] - 3 * calls["LlamaForCausalLM"] == 2 * again


def test_bf16(tmp_path, plain, calls):
    ended = run(tmp_path / "run", precision="amp-bf16")
    assert calls["torch.bfloat16"] > 0
    assert losses(ended.folder) != losses(plain.folder)
    assert losses(ended.folder) == pytest.approx(losses(plain.folder), rel=1e-3)
    weights = load_file(ended.folder / "model" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        (
            "foreach",
            lambda saved: not saved["param_groups"][0]["fused"]
            and "exp_avg_sq" in saved["state"][0],
        ),
        ("fused", lambda saved: saved["param_groups"][0]["fused"]),
        ("adafactor", lambda saved: "exp_avg_sq_row" in saved["state"][0]),
        slow(
            "sgd",
            lambda saved: not any(
                state.get("momentum_buffer") is not None for state in saved["state"].values()
            ),
        ),
        slow("rmsprop", lambda saved: "square_avg" in saved["state"][0]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_optimizer(tmp_path, name, sign):
    ended = run(tmp_path / "run", optim=name, save_every=4)
    assert sign(trainer_optimizer(ended.folder))
    assert losses(ended.folder)[0] != losses(ended.folder)[-1]


def test_an_optimizer_whose_package_is_missing(tmp_path):
    import importlib.util

    if importlib.util.find_spec("lomo_optim") is not None:
        pytest.skip("it is there")
    with pytest.raises(PatchgenError, match="PG814.*lomo_optim"):
        run(tmp_path / "run", optim="lomo")


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["whole", "regional"])
def test_compiled(tmp_path, plain, scope):
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    ended = run(
        tmp_path / "run", compile=f"{scope},backend=eager", packing="concatenated", save_every=4
    )
    assert counters["stats"]["unique_graphs"] > 0
    plainly = run(tmp_path / "plain", packing="concatenated")
    assert losses(ended.folder) == pytest.approx(losses(plainly.folder), rel=1e-5)
    # What is saved loads without a trace of the compilation.
    assert load_file(ended.folder / "checkpoint-4" / "model.safetensors").keys() == (
        load_file(plainly.folder / "model" / "model.safetensors").keys()
    )


@pytest.mark.slow
@pytest.mark.parametrize("how", ["whole", "regional,mode=max-autotune-no-cudagraphs"])
def test_compiled_by_inductor(tmp_path, how):
    ended = run(tmp_path / "run", compile=how, packing="concatenated", steps=2)
    plainly = run(tmp_path / "plain", packing="concatenated", steps=2)
    assert losses(ended.folder) == pytest.approx(losses(plainly.folder), rel=1e-4)


@pytest.mark.slow
def test_rows_from_other_processes_are_the_same(tmp_path, plain, monkeypatch):
    from torch.utils.data import dataloader

    made = []
    begin = dataloader._MultiProcessingDataLoaderIter.__init__
    monkeypatch.setattr(
        dataloader._MultiProcessingDataLoaderIter,
        "__init__",
        lambda self, loader: (
            made.append((loader.num_workers, loader.prefetch_factor)),
            begin(self, loader),
        )[1],
    )
    ended = run(tmp_path / "run", loader="workers=2,prefetch=3")
    assert (2, 3) in made
    assert losses(ended.folder) == losses(plain.folder)


@pytest.mark.parametrize(
    ("packing", "model"),
    [slow("isolated", "llama_loss"), ("isolated", "llama"), ("concatenated", "llama_loss")],
)
def test_packed_rows_have_no_padding_to_speak_of(tmp_path, plain, packing, model):
    ended = run(tmp_path / "run", model, packing=packing)
    assert 0.97 * 4 * 8 * 32 < ended.figures["tokens"] <= 4 * 8 * 32
    assert plain.figures["tokens"] < 0.96 * 4 * 8 * 32


def test_passages_that_see_each_other_are_not_isolated(tmp_path):
    with pytest.raises(PatchgenError, match="PG812.*see each other"):
        run(tmp_path / "run", "bert", task="masked-lm", packing="isolated")
    run(tmp_path / "free", "bert_mlm_padding_free", task="masked-lm", packing="isolated", steps=1)


def test_lora_trains_little_and_saves_it_alone(tmp_path):
    pytest.importorskip("peft")
    ended = run(tmp_path / "run", lora="rank=2,alpha=4,targets=q_proj+v_proj", learning_rate=0.05)
    found = RunFolder(ended.folder).found()
    assert 0 < found["trained_parameters"] < found["parameters"] / 50
    saved = load_file(ended.folder / "model" / "adapter_model.safetensors")
    assert {name.split(".")[-3] for name in saved} == {"q_proj", "v_proj"}
    assert any(tensor.abs().sum() > 0 for name, tensor in saved.items() if "lora_B" in name)
    with pytest.raises(PatchgenError, match="PG813.*nowhere"):
        run(tmp_path / "wrong", lora="targets=nowhere")


def test_learning_rate_schedule_and_warmup(tmp_path):
    ended = run(tmp_path / "run", learning_rate=0.004, schedule="constant_with_warmup", warmup=2.0)
    rates = [
        figures["learning_rate"]
        for figures in RunFolder(ended.folder).metrics()
        if "learning_rate" in figures
    ]
    assert rates == pytest.approx([0.0, 0.002, 0.004, 0.004])
    with pytest.raises(PatchgenError, match="--schedule downhill: PG813"):
        run(tmp_path / "wrong", schedule="downhill")


def test_weight_decay(tmp_path, plain):
    ended = run(tmp_path / "run", weight_decay=100.0)
    size = [
        load_file(folder / "model" / "model.safetensors")[
            "model.layers.0.mlp.up_proj.weight"
        ].norm()
        for folder in (ended.folder, plain.folder)
    ]
    assert size[0] < 0.9 * size[1]


@pytest.mark.slow
def test_epochs_and_what_is_written_how_often(tmp_path):
    every = {"log_every": 2, "eval_every": 3, "save_every": 2, "keep": 2}
    ended = run(tmp_path / "run", steps=0, epochs=0.1, batch_size="16", data=(), **every)
    total = ended.figures["steps"]
    assert ended.figures["epochs"] == pytest.approx(0.1, abs=0.01) and total > 6
    metrics = RunFolder(ended.folder).metrics()
    assert [figures["step"] for figures in metrics if "loss" in figures] == list(
        range(2, total + 1, 2)
    )
    assert {figures["step"] for figures in metrics if "eval_loss" in figures} == {
        *range(3, total + 1, 3),
        total,
    }
    assert len(list(ended.folder.glob("checkpoint-*"))) == 2


def test_deterministic(tmp_path, plain):
    before = torch.are_deterministic_algorithms_enabled()
    try:
        ended = run(tmp_path / "run", deterministic=True)
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(before)
    assert losses(ended.folder) == losses(plain.folder)


@pytest.mark.slow
def test_hidden_share(tmp_path):
    few = run(tmp_path / "few", "bert", task="masked-lm", masked=0.05)
    many = run(tmp_path / "many", "bert", task="masked-lm", masked=0.6)
    assert losses(few.folder) != losses(many.folder)


def test_a_text_of_ones_own(tmp_path):
    text = "\n\n".join(f"Sentence number {n} of a very small text." for n in range(80))
    (tmp_path / "mine.txt").write_text(text, encoding="utf-8")
    ended = run(
        tmp_path / "run",
        data=(str(tmp_path / "mine.txt"),),
        vocabulary=280,
        learning_rate=1e-2,
        steps=12,
    )
    assert json.loads((ended.folder / "run.json").read_text())["data"]["passages"] == [72, 8]
    assert losses(ended.folder)[-1] < losses(ended.folder)[0] - 1


@pytest.mark.parametrize(
    ("model", "switches", "code", "message"),
    [
        ("llama_los", {}, "PG811", "did you mean llama_loss"),
        ("nothing/at-all", {"tiny": False}, "PG811", "cannot be read"),
        ("bert_moe", {"task": "classification"}, "PG812", "it has one for masked-lm"),
        ("vit", {}, "PG812", "has no head for causal-lm"),
        ("llama", {"config": ("hiden_size=8",)}, "PG813", "did you mean hidden_size"),
        ("llama", {"config": ("hidden_size",)}, "PG813", "key=value"),
        (
            "gpt2",
            {"length": 200, "config": ("n_positions=100",)},
            "PG813",
            "the model has 100 positions",
        ),
    ],
)
def test_models_that_are_not_to_be_had(tmp_path, model, switches, code, message):
    with pytest.raises(PatchgenError, match=code) as refused:
        run(tmp_path / "run", model, **switches)
    assert message in str(refused.value)


def test_a_checkpoint_of_another_model(tmp_path, plain):
    with pytest.raises(PatchgenError, match="PG811.*is a llama, and bert_mlm takes bert"):
        run(
            tmp_path / "run",
            "bert_mlm",
            task="masked-lm",
            tiny=False,
            start=str(plain.folder / "model"),
        )


@pytest.mark.slow
def test_what_a_checkpoint_does_not_have_is_reported(tmp_path, plain):
    watch = Remembered()
    begin = {
        "task": "classification",
        "tiny": False,
        "start": str(plain.folder / "model"),
        "steps": 1,
    }
    run(tmp_path / "run", "llama", watch, **begin)
    assert any("has no score.weight: drawn" in note for note in watch.notes)
    assert any("has lm_head.weight: not taken" in note for note in watch.notes)
    quiet = Remembered()
    run(tmp_path / "same", "llama", quiet, tiny=False, start=str(plain.folder / "model"), steps=1)
    assert quiet.notes == []


def test_a_checkpoint_that_was_cut_off(tmp_path, plain):
    folder = tmp_path / "cut"
    shutil.copytree(plain.folder / "model", folder)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(PatchgenError, match="PG811.*cannot be loaded"):
        run(tmp_path / "run", tiny=False, start=str(folder))
