"""Each method that a CPU can run, by `patchgen train`, with the evidence that it did what it says."""

from __future__ import annotations

import math
from collections import Counter

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")
pytest.importorskip("datasets")

import torch
from safetensors.torch import load_file
from torch.nn.modules.module import register_module_forward_hook
from transformers import TrainerCallback

from patchgen.syntax.errors import PatchgenError
from tests.train.runs import history, losses, run, seen_by, weights

FULL = {"packing": "concatenated"}


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The run that the others are compared with."""
    folder = tmp_path_factory.mktemp("plain") / "run"
    run(folder)
    return folder


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


def states(folder):
    return torch.load(folder / "checkpoint-4" / "optimizer.pt", weights_only=True)


@pytest.mark.parametrize(
    ("model", "task"),
    [
        ("llama_moe", "causal-lm"),
        slow("bert", "masked-lm"),
        ("bert_moe", "masked-lm"),
        ("llama_loss", "classification"),
    ],
)
def test_task(tmp_path, model, task):
    import datasets

    more = {}
    if task == "classification":
        texts = [f"{'good' if n % 2 else 'bad'} text {n}" for n in range(60)]
        rows = datasets.Dataset.from_dict({"text": texts, "label": [n % 2 for n in range(60)]})
        rows.save_to_disk(str(tmp_path / "rows"))
        more = {"data": [str(tmp_path / "rows")], "max_steps": 12}
    more |= {"learning_rate": 5e-3, "eval_strategy": "epoch"}
    figures = run(tmp_path / "run", model, task=task, **more)
    begin = math.log(2) if task == "classification" else math.log(1024)
    assert abs(losses(tmp_path / "run")[0] - begin) < 0.3  # it knows nothing yet
    assert figures["eval_loss"] < begin
    assert ("eval_accuracy" in figures) == (task == "classification")


def test_a_variant_trains_as_its_parent_does(tmp_path, plain):
    run(tmp_path / "run", "llama")
    assert losses(tmp_path / "run") == pytest.approx(losses(plain), rel=1e-5)


def test_figures_are_logged_and_recorded(tmp_path):
    figures = run(tmp_path / "run", max_steps=6)
    assert figures["steps"] == 6 and 0 < figures["mfu"] < 1 and figures["peak_bytes"] > 2**20
    last = [entry for entry in history(tmp_path / "run") if "loss" in entry][-1]
    assert {"tokens_a_second", "mfu", "peak_bytes", "learning_rate", "grad_norm"} <= last.keys()


def test_the_model_and_its_tokenizer_load_from_the_folder(plain):
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(plain)
    model = transformers.AutoModelForCausalLM.from_pretrained(plain)
    ids = tokenizer("It is a truth", return_tensors="pt")["input_ids"]
    assert tokenizer.decode(ids[0], skip_special_tokens=True) == "It is a truth"
    assert model(ids).logits.shape[-1] == len(tokenizer)


def test_from_a_checkpoint(tmp_path, plain):
    run(tmp_path / "run", tiny=False, weights=plain, max_steps=2, learning_rate=5e-4)
    assert losses(tmp_path / "run")[0] < losses(plain)[0] - 0.01  # it has learned already
    rates = [entry["learning_rate"] for entry in history(plain) if "loss" in entry]
    assert max(rates) == pytest.approx(5e-4)
    run(tmp_path / "named", str(plain), tiny=False, max_steps=1)
    assert losses(tmp_path / "named") == pytest.approx(losses(tmp_path / "run")[:1], rel=1e-5)
    assert history(tmp_path / "named")[0]["learning_rate"] == pytest.approx(2e-5)


def test_accumulated_batches_are_one_batch(tmp_path):
    run(tmp_path / "whole", per_device_train_batch_size=8)
    run(tmp_path / "parts", per_device_train_batch_size=2, gradient_accumulation_steps=4)
    assert losses(tmp_path / "parts") == pytest.approx(losses(tmp_path / "whole"), rel=1e-5)


def test_a_loss_that_ignores_the_number_of_labels_is_scaled(tmp_path):
    """BERT's; masks are drawn for a batch, so labels differ: only the size is compared."""
    more = {"task": "masked-lm", "per_device_train_batch_size": 2, "max_steps": 1}
    run(tmp_path / "run", "bert", gradient_accumulation_steps=4, **more)
    assert abs(losses(tmp_path / "run")[0] - math.log(1024)) < 0.3


@pytest.mark.parametrize(
    ("model", "kwargs", "again"),
    [
        ("llama", {"policy": "full"}, 3),
        slow("llama_loss", {"every_n_layers": 2}, 2),
        ("llama", {"policy": "selective"}, 3),
    ],
)
def test_checkpointed_layers_run_twice_and_change_nothing(tmp_path, calls, model, kwargs, again):
    more = {"per_device_train_batch_size": 1, "max_steps": 2}
    asked = {"activation_checkpointing": True, "activation_checkpointing_kwargs": kwargs}
    run(tmp_path / "run", model, **asked, **more)
    run(tmp_path / "without", model, **more)
    assert losses(tmp_path / "run") == losses(tmp_path / "without")
    # One short forward asks what the loss is a mean of; no layer of it is run again.
    assert calls["LlamaAttention"] - 3 * calls["LlamaForCausalLM"] == 2 * again


def test_bf16(tmp_path, plain, calls):
    run(tmp_path / "run", bf16=True)
    assert calls["torch.bfloat16"] > 0
    assert losses(tmp_path / "run") != losses(plain)
    assert losses(tmp_path / "run") == pytest.approx(losses(plain), rel=1e-3)
    assert dtypes(tmp_path / "run") == {torch.float32}
    run(tmp_path / "pure", dtype="bfloat16")
    assert dtypes(tmp_path / "pure") == {torch.bfloat16}


def dtypes(folder):
    return {tensor.dtype for tensor in load_file(folder / "model.safetensors").values()}


@pytest.mark.parametrize(
    ("arguments", "sign"),
    [
        (
            {"optim": "adamw_torch"},
            lambda saved: not saved["param_groups"][0]["fused"]
            and "exp_avg_sq" in saved["state"][0],
        ),
        ({"optim": "adamw_torch_fused"}, lambda saved: saved["param_groups"][0]["fused"]),
        ({"optim": "adafactor"}, lambda saved: "exp_avg_sq_row" in saved["state"][0]),
        (
            {"muon": True},
            lambda saved: (
                {"momentum_buffer"} == saved["0"]["state"][0].keys()
                and "exp_avg_sq" in saved["1"]["state"][0]
            ),
        ),
    ],
    ids=["torch", "fused", "adafactor", "muon"],
)
def test_optimizer(tmp_path, arguments, sign):
    run(tmp_path / "run", save_steps=4, learning_rate=5e-3, **arguments)
    assert sign(states(tmp_path / "run"))
    assert losses(tmp_path / "run")[-1] < losses(tmp_path / "run")[0]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_compiled(tmp_path, backend):
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    run(tmp_path / "run", torch_compile=True, torch_compile_backend=backend, max_steps=2, **FULL)
    assert counters["stats"]["unique_graphs"] > 0
    run(tmp_path / "plain", max_steps=2, **FULL)
    assert losses(tmp_path / "run") == pytest.approx(losses(tmp_path / "plain"), rel=1e-4)
    # What is saved loads without a trace of the compilation.
    saved, beside = (load_file(tmp_path / name / "model.safetensors") for name in ("run", "plain"))
    assert saved.keys() == beside.keys()


@pytest.mark.slow
def test_rows_from_other_processes_are_the_same(tmp_path, plain):
    run(tmp_path / "run", dataloader_num_workers=2, dataloader_prefetch_factor=3)
    assert losses(tmp_path / "run") == losses(plain)


def test_documents_that_see_each_other_are_not_isolated(tmp_path):
    with pytest.raises(PatchgenError, match="PG812.*see each other"):
        run(tmp_path / "run", "bert", task="masked-lm", packing="isolated")
    more = {"task": "masked-lm", "packing": "isolated", "max_steps": 1}
    run(tmp_path / "free", "bert_mlm_padding_free", **more)


def test_lora_trains_little_and_saves_it_alone(tmp_path):
    pytest.importorskip("peft")
    asked = {"target_modules": ["q_proj", "v_proj"]}
    more = {"lora_rank": 2, "lora_kwargs": asked, "learning_rate": 0.05}
    run(tmp_path / "run", **more)
    saved = load_file(tmp_path / "run" / "adapter_model.safetensors")
    assert {name.split(".")[-3] for name in saved} == {"q_proj", "v_proj"}
    assert any(tensor.abs().sum() > 0 for name, tensor in saved.items() if "lora_B" in name)
    with pytest.raises(PatchgenError, match="PG813.*nowhere"):
        run(tmp_path / "wrong", lora_rank=2, lora_kwargs={"target_modules": ["nowhere"]})


def test_lora_of_joined_experts(tmp_path):
    """Experts are no linear layers: their parameters are named."""
    pytest.importorskip("peft")
    named = {"target_parameters": ["experts.gate_up_proj"]}
    run(tmp_path / "run", "llama_moe", lora_rank=2, lora_kwargs=named, max_steps=1)
    saved = load_file(tmp_path / "run" / "adapter_model.safetensors")
    assert any(".experts." in name for name in saved)


class Small(TrainerCallback):
    """The model has memory for four rows."""

    seen: list[int] = []

    def on_train_begin(self, args, state, control, model, **rest):
        def refuse(module, args, kwargs):
            rows = kwargs["input_ids"].shape[0]
            if module.training:
                Small.seen.append(rows)
                if rows > 4:
                    raise torch.OutOfMemoryError("CUDA out of memory.")

        model.register_forward_pre_hook(refuse, with_kwargs=True)


def test_the_largest_batch(tmp_path):
    """accelerate makes a batch that does not fit smaller; without it the run ends with a way on."""
    with seen_by(Small):
        run(tmp_path / "run", auto_find_batch_size=True, max_steps=1)
        assert Small.seen[0] == 8 and 1 <= Small.seen[-1] <= 4
        with pytest.raises(PatchgenError, match="PG816") as refused:
            run(tmp_path / "whole", max_steps=1)
    assert "--auto_find_batch_size" in refused.value.problem.hint


@pytest.mark.slow
def test_the_same_run_gives_the_same_bits(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        run(tmp_path / name, seed=seed)
    a, b, c = (weights(tmp_path / name) for name in "abc")
    assert a == b != c
