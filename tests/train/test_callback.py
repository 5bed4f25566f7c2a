"""The callback in other Trainers: transformers' own, and TRL's."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")
transformers = pytest.importorskip("transformers")
datasets = pytest.importorskip("datasets")

from generated.llama.modeling_llama_loss import LlamaForCausalLM
from patchgen.runtime.tiny import tiny_config
from patchgen.syntax.errors import PatchgenError
from patchgen.training.callback import VariantCallback, find_checkpoint
from patchgen.training.loop.checkpoints import SEAL
from patchgen.training.loop.options import Options
from patchgen.training.loop.texts import prepare_data
from tests.train.runs import TEXT

SIZES = {"vocab_size": 1024, "max_position_embeddings": 64}


@pytest.fixture(scope="module")
def data():
    options = Options(data=[str(TEXT)], length=32)
    return prepare_data(options, "", evaluated=False)


def model(name="llama_loss"):
    transformers.set_seed(0)
    kind = transformers.LlamaForCausalLM if name == "llama" else LlamaForCausalLM
    return kind(tiny_config(transformers.LlamaConfig, **SIZES))


def arguments(folder, **more):
    return {
        "output_dir": str(folder),
        "max_steps": 4,
        "save_steps": 2,
        "logging_steps": 1,
        "use_cpu": True,
        "disable_tqdm": True,
        "report_to": "none",
        **more,
    }


def plain(folder, data, name="llama_loss", **more):
    args = transformers.TrainingArguments(**arguments(folder, **more))
    trainer = transformers.Trainer(
        model(name), args, train_dataset=data.train, data_collator=data.collate
    )
    trainer.add_callback(VariantCallback(trainer))
    return trainer


def losses(trainer):
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def insist(trainer, folder):
    logged = [entry for entry in trainer.state.log_history if "loss" in entry][-1]
    assert logged["tokens_a_second"] > 0 and 0 < logged["mfu"] < 1 and logged["peak_bytes"] > 0
    assert find_checkpoint(folder) == folder / "checkpoint-4"
    assert (folder / "checkpoint-2" / SEAL).is_file()


def test_in_a_trainer_of_ones_own(tmp_path, data):
    trainer = plain(tmp_path / "a", data)
    trainer.train()
    insist(trainer, tmp_path / "a")
    stock = plain(tmp_path / "b", data, "llama")
    stock.train()
    assert losses(trainer) == pytest.approx(losses(stock), rel=1e-5)
    again = plain(tmp_path / "a", data)
    (tmp_path / "a" / "checkpoint-4" / SEAL).unlink()
    again.train(resume_from_checkpoint=str(find_checkpoint(tmp_path / "a")))
    assert losses(again) == losses(trainer)


def test_in_sft_trainer(tmp_path, data):
    trl = pytest.importorskip("trl")
    texts = TEXT.read_text(encoding="utf-8").split("\n\n")[:40]
    rows = datasets.Dataset.from_dict({"text": texts})
    found = []
    for name in ("llama_loss", "llama"):
        args = trl.SFTConfig(**arguments(tmp_path / name, max_length=48, bf16=False))
        trainer = trl.SFTTrainer(
            model(name), args, train_dataset=rows, processing_class=data.tokenizer
        )
        trainer.add_callback(VariantCallback(trainer))
        trainer.train()
        insist(trainer, tmp_path / name)
        found.append(losses(trainer))
    assert found[0] == pytest.approx(found[1], rel=1e-5)


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        ({"fp16": True}, "PG814", "CUDA alone"),
        ({"use_liger_kernel": True}, "PG813", "the variant has changed"),
    ],
)
def test_what_would_do_nothing_is_refused(tmp_path, data, monkeypatch, more, code, message):
    trainer = plain(tmp_path, data)
    for name, value in more.items():
        setattr(trainer.args, name, value)
    with pytest.raises(PatchgenError, match=f"{code}.*{message}"):
        VariantCallback(trainer)


def test_checkpointing_that_no_layer_does_is_refused(tmp_path, data):
    trainer = plain(tmp_path, data, activation_checkpointing=True)
    trainer.model.activation_checkpointing_enable = lambda *given, **rest: None
    with pytest.raises(PatchgenError, match="PG812.*no layer of LlamaForCausalLM"):
        trainer.train()


def test_another_engine_is_refused(tmp_path, data):
    trainer = plain(tmp_path, data)
    trainer.callback_handler.callbacks[-1].engine = VariantCallback(trainer, "single").engine
    trainer.model_wrapped = torch.nn.Sequential()
    callback = next(c for c in trainer.callback_handler.callbacks if isinstance(c, VariantCallback))
    assert callback.engine.name == "single"
    with pytest.raises(PatchgenError, match="PG831"):
        VariantCallback(trainer, "tp")


def test_a_loss_that_is_no_number_ends_the_run(tmp_path, data):
    trainer = plain(tmp_path, data, learning_rate=1e30, logging_nan_inf_filter=False, max_steps=20)
    with pytest.raises(PatchgenError, match="PG820.*at step"):
        trainer.train()
