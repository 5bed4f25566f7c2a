"""Variants used as people use transformers: loaded, saved, generated with, trained, adapted, compiled, registered."""

import subprocess
import sys
import warnings
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
)
from transformers.models.bert import modeling_bert as bert
from transformers.models.gpt2 import modeling_gpt2 as gpt2
from transformers.models.llama import modeling_llama as llama
from transformers.models.qwen3_moe import modeling_qwen3_moe as qwen3_moe

import patchgen
from patchgen.runtime.classes import module_of
from patchgen.runtime.tiny import tiny_config
from patchgen.runtime.variants import Variant, find_variant
from patchgen.verifying.inputs.arguments import batch
from patchgen.verifying.models.build import draw_weights
from tests.toytree import REPOSITORY, environment
from tests.use.wide import make_project

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")

PARENTS = {
    "llama_loss": llama.LlamaForCausalLM,
    "bert_mlm": bert.BertForMaskedLM,
    "gpt2_loss": gpt2.GPT2LMHeadModel,
    "qwen3_moe_checkpoint_loss": qwen3_moe.Qwen3MoeForCausalLM,
}
each = pytest.mark.parametrize("name", PARENTS)


def slow(name):
    return pytest.param(name, marks=pytest.mark.slow)


def test_a_file_of_another_release_says_which(tmp_path):
    folder = tmp_path / "flats"
    folder.mkdir()
    (folder / "modeling_old.py").write_text("from transformers import NoSuchModel\n")
    tools = "libcst 1.9.0, patchgen 0.1.0, transformers 5.99.0"
    old = Variant("old", "flats.modeling_old", folder / "modeling_old.py", tmp_path, "", tools)
    with pytest.raises(
        ImportError, match=r"was made for transformers 5\.99\.0, and this is .*NoSuchModel"
    ):
        module_of(old)
    here = replace(old, made_by=f"transformers {transformers.__version__}")
    with pytest.raises(ImportError, match="^cannot import name"):
        module_of(here)


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch):
    monkeypatch.chdir(REPOSITORY)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """A tiny checkpoint of each parent."""
    top = tmp_path_factory.mktemp("checkpoints")
    for name, parent in PARENTS.items():
        model = parent(tiny_config(parent.config_class))
        draw_weights(model)
        model.save_pretrained(top / name)
    return top


def from_transformers(name, folder):
    return PARENTS[name].from_pretrained(folder, attn_implementation="sdpa").eval()


def outputs(model):
    given = batch("right").inputs()
    with torch.no_grad():
        return model.eval()(**given)


@each
def test_loads_and_saves_for_transformers(name, checkpoints, tmp_path):
    model, parent = (
        patchgen.load(name, checkpoints / name),
        from_transformers(name, checkpoints / name),
    )
    assert type(model).__module__ == find_variant(name).module
    assert type(model).__name__ == PARENTS[name].__name__
    expected = outputs(parent)
    assert torch.equal(outputs(model).logits, expected.logits)
    model.save_pretrained(tmp_path)
    assert torch.equal(outputs(from_transformers(name, tmp_path)).logits, expected.logits)


@pytest.mark.parametrize(
    "name", [name for name, parent in PARENTS.items() if parent.can_generate()]
)
def test_generates_with_a_cache(name, checkpoints):
    prompt = batch("left").inputs()
    del prompt["labels"]
    found = [
        model.generate(**prompt, max_new_tokens=6, do_sample=False, use_cache=use_cache)
        for model, use_cache in (
            (from_transformers(name, checkpoints / name), True),
            (patchgen.load(name, checkpoints / name), True),
            (patchgen.load(name, checkpoints / name), False),
        )
    ]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_another_head(checkpoints):
    model = patchgen.load("llama_loss", checkpoints / "llama_loss", head="LlamaModel")
    assert type(model).__name__ == "LlamaModel"


@pytest.mark.parametrize(
    ("name", "checkpoint", "head", "message"),
    [
        pytest.param(
            "llama_los", "llama_loss", None, "did you mean llama_loss", id="no such variant"
        ),
        pytest.param(
            "llama_loss",
            "qwen3_moe_checkpoint_loss",
            "LlamaModel",
            "variants of qwen3_moe: ",
            id="another model",
        ),
        pytest.param(
            "llama_loss",
            "llama_loss",
            "LlamaForMaskedLM",
            "has no LlamaForMaskedLM",
            id="no such head",
        ),
    ],
)
def test_refusals(name, checkpoint, head, message, checkpoints):
    with pytest.raises(ValueError, match=message):
        patchgen.load(name, checkpoints / checkpoint, head=head)


def test_an_output_that_was_removed(tmp_path, monkeypatch):
    make_project(tmp_path, monkeypatch)
    find_variant("wide").path.unlink()
    with pytest.raises(
        FileNotFoundError, match="is recorded in patchgen.lock as wide, and is not there"
    ):
        patchgen.load("wide", "nowhere")


def test_a_configuration_without_architectures(checkpoints):
    config = AutoConfig.from_pretrained(checkpoints / "llama_loss")
    config.architectures = None
    with pytest.raises(ValueError, match="names no architecture; say head=LlamaForCausalLM"):
        patchgen.load("llama_loss", checkpoints / "llama_loss", config=config)


def test_an_installed_package_is_enough(tmp_path, monkeypatch, checkpoints):
    """Where there is no patchgen.lock, the gallery's are the variants."""
    monkeypatch.chdir(tmp_path)
    assert find_variant("bert_mlm").parent == "transformers.models.bert.modeling_bert"
    model = patchgen.load("bert_mlm", checkpoints / "bert_mlm")
    assert type(model).__module__ == "patchgen.gallery.bert.modeling_bert_mlm"


def test_importing_patchgen_imports_no_models():
    script = "import sys, patchgen; assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], env=environment(), check=True)
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        patchgen.lode  # noqa: B018


# --- auto classes


def test_one_variant_takes_the_place_of_its_parent(checkpoints):
    config = tiny_config("llama")
    before = {auto: type(auto.from_config(config)) for auto in (AutoModel, AutoModelForCausalLM)}
    with patchgen.register("llama_loss"):
        model = AutoModelForCausalLM.from_pretrained(checkpoints / "llama_loss")
        assert type(model).__module__ == "generated.llama.modeling_llama_loss"
        with pytest.raises(ValueError, match="LlamaConfig is taken by llama_loss"):
            patchgen.register("llama_packed")
        with patchgen.register("bert_mlm"):
            model = AutoModelForMaskedLM.from_config(tiny_config("bert"))
            assert type(model).__module__ == "generated.bert.modeling_bert_mlm"
    assert {auto: type(auto.from_config(config)) for auto in before} == before
    assert type(AutoModelForMaskedLM.from_config(tiny_config("bert"))) is bert.BertForMaskedLM


def test_undone_twice():
    first = patchgen.register("llama_loss")
    first.undo()
    second = patchgen.register("llama_packed")
    first.undo()
    assert (
        type(AutoModel.from_config(tiny_config("llama"))).__module__
        == "generated.llama.modeling_llama_packed"
    )
    second.undo()


def test_a_model_type_of_its_own(tmp_path, monkeypatch):
    make_project(tmp_path, monkeypatch)
    with patchgen.register("wide"):
        config = AutoConfig.for_model("wide", hidden_size=32, num_attention_heads=4, vocab_size=97)
        config.num_hidden_layers, config.intermediate_size = 1, 48
        model = AutoModelForCausalLM.from_config(config)
        assert type(model).__name__ == "WideForCausalLM"
        model.save_pretrained(tmp_path / "saved")
        assert type(AutoModelForCausalLM.from_pretrained(tmp_path / "saved")) is type(model)
        assert type(AutoModel.from_config(tiny_config("llama"))) is llama.LlamaModel
    assert type(patchgen.load("wide", tmp_path / "saved")) is type(model)
    with pytest.raises(ValueError, match="wide"):
        AutoConfig.from_pretrained(tmp_path / "saved")


def test_a_mixture_from_a_dense_checkpoint(checkpoints, tmp_path):
    """`load` takes the parent's checkpoint where the variant does, and the auto classes what is saved of it."""
    model = patchgen.load("llama_moe", checkpoints / "llama_loss", num_experts=4)
    expected = outputs(from_transformers("llama_loss", checkpoints / "llama_loss")).logits
    torch.testing.assert_close(outputs(model).logits, expected, rtol=1e-4, atol=1e-4)
    model.save_pretrained(tmp_path)
    with patchgen.register("llama_moe"), patchgen.register("llama_loss"):
        again = AutoModelForCausalLM.from_pretrained(tmp_path)
        assert type(again) is type(model)
        assert torch.equal(outputs(again).logits, outputs(model).logits)


# --- training


def examples():
    drawn = batch("right", rows=8, length=9)
    return [{name: value[row] for name, value in drawn.inputs().items()} for row in range(8)]


def training_scenario(model, folder, **changes):
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=3,
        per_device_train_batch_size=2,
        learning_rate=1e-2,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        seed=0,
        **changes,
    )
    trainer = Trainer(
        model=model, args=arguments, train_dataset=examples(), eval_dataset=examples()[:4]
    )
    trainer.train()
    return trainer.evaluate()["eval_loss"]


@pytest.mark.parametrize(
    "name", ["llama_loss", slow("bert_mlm"), slow("qwen3_moe_checkpoint_loss")]
)
def test_trainer(name, checkpoints, tmp_path):
    """Under accumulation and checkpointing, to the loss that the parent comes to."""
    pytest.importorskip("accelerate")
    changes = {"gradient_accumulation_steps": 2, "gradient_checkpointing": True}
    models = patchgen.load(name, checkpoints / name), from_transformers(name, checkpoints / name)
    before = [float(outputs(model).loss) for model in models]
    after = [training_scenario(model, tmp_path, **changes) for model in models]
    # In chunks a sum has another order.
    assert before[0] == pytest.approx(before[1], rel=1e-6)
    assert after[0] == pytest.approx(after[1], rel=1e-6)
    assert after[0] < before[0]


@pytest.mark.parametrize("name", ["llama_loss", "llama_fast"])
def test_lora(name, checkpoints, tmp_path):
    """peft finds the targets by `model_type`; the adapter fits the parent."""
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    model = patchgen.load(name, checkpoints / "llama_loss")
    wrapped = peft.get_peft_model(
        model, peft.LoraConfig(r=4, task_type="CAUSAL_LM", init_lora_weights=False)
    )
    wrapped.train()
    wrapped(**batch("right").inputs()).loss.backward()
    with_gradient = [name for name, p in wrapped.named_parameters() if p.grad is not None]
    assert with_gradient and all("lora_" in name for name in with_gradient)
    wrapped.save_pretrained(tmp_path)
    parent = peft.PeftModel.from_pretrained(
        from_transformers("llama_loss", checkpoints / "llama_loss"), tmp_path
    )
    assert torch.equal(outputs(wrapped).logits, outputs(parent).logits)
    # Merged, it is in the weights that the parent loads.
    expected = outputs(wrapped).logits
    wrapped.merge_and_unload().save_pretrained(tmp_path / "merged")
    merged = from_transformers("llama_loss", tmp_path / "merged")
    assert torch.allclose(outputs(merged).logits, expected, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama_loss", "llama_fast"])
def test_qlora(name, checkpoints):
    """On weights of eight bits, adapters get the loss and the gradients that the parent gives."""
    peft, ao = pytest.importorskip("peft"), pytest.importorskip("torchao.quantization")
    quantized = {
        "quantization_config": transformers.TorchAoConfig(ao.Int8WeightOnlyConfig()),
        "attn_implementation": "sdpa",
    }
    folder, steps = checkpoints / "llama_loss", []
    for model in (
        patchgen.load(name, folder, **quantized),
        llama.LlamaForCausalLM.from_pretrained(folder, **quantized),
    ):
        assert type(model.model.layers[0].mlp.up_proj.weight.data) is not torch.Tensor
        torch.manual_seed(0)
        wrapped = peft.get_peft_model(
            model, peft.LoraConfig(r=4, task_type="CAUSAL_LM", init_lora_weights=False)
        )
        loss = wrapped.train()(**batch("right").inputs()).loss
        loss.backward()
        steps.append((loss, {n: p.grad for n, p in wrapped.named_parameters() if "lora_" in n}))
    (loss, gradients), (expected, expected_gradients) = steps
    assert gradients and torch.allclose(loss, expected, rtol=1e-6)
    for which, gradient in expected_gradients.items():
        torch.testing.assert_close(gradients[which], gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("llama_loss", {}),
        ("llama_loss", {"gradient_checkpointing": True}),
        ("llama_packed", {"packing": True, "packing_strategy": "bfd"}),
        ("llama_packed", {"padding_free": True, "max_length": None}),
    ],
    ids=["as it is", "composed", "packed", "padding-free"],
)
def test_supervised_fine_tuning(name, changes, checkpoints, tmp_path):
    """TRL's trainer, on tokens, so that no tokenizer has to be fetched."""
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    from tests.use.words import word_tokenizer

    losses = []
    for model in (
        patchgen.load(name, checkpoints / "llama_loss"),
        from_transformers("llama_loss", checkpoints / "llama_loss"),
    ):
        settings = {"max_length": 16, "gradient_checkpointing": False, **changes}
        arguments = trl.SFTConfig(
            output_dir=str(tmp_path),
            max_steps=2,
            per_device_train_batch_size=2,
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            bf16=False,
            disable_tqdm=True,
            **settings,
        )
        rows = datasets.Dataset.from_list(
            [{"input_ids": e["input_ids"].tolist()} for e in examples()]
        )
        trainer = trl.SFTTrainer(
            model=model, args=arguments, train_dataset=rows, processing_class=word_tokenizer()
        )
        losses.append(trainer.train().training_loss)
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.parametrize("name", ["llama_loss", slow("gpt2_loss")])
def test_compiles_whole(name, checkpoints):
    model = patchgen.load(name, checkpoints / name).eval()
    given = {"input_ids": batch().input_ids, "use_cache": False}
    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        found, expected = compiled(**given).logits, model(**given).logits
    torch._dynamo.reset()
    assert torch.equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("adapted", [False, True], ids=["as it is", "LoRA"])
def test_trl_is_said_to_take_the_loss(adapted, checkpoints):
    """By what SFTTrainer and DPOTrainer do to a model; a model without the part says nothing."""
    utils, peft = pytest.importorskip("trl.trainer.utils"), pytest.importorskip("peft")

    def warned(name):
        model = patchgen.load(name, checkpoints / "llama_loss")
        utils.add_fused_lm_head(model)
        called = (
            peft.get_peft_model(model, peft.LoraConfig(target_modules=["o_proj"]))
            if adapted
            else model
        )
        given = {"input_ids": batch().input_ids, "labels": batch().input_ids}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                called(**given, fused_lm_head=True)
        return sum("TRL computes the loss" in str(each.message) for each in caught)

    assert warned("llama_loss") == 1
    assert warned("llama_packed") == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["SFT", "DPO"])
def test_a_trainer_of_trl_warns_that_the_loss_is_its_own(kind, checkpoints, tmp_path):
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    from tests.use.words import word_tokenizer

    how = {
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
        "max_steps": 1,
    }
    arguments = getattr(trl, f"{kind}Config")(
        output_dir=str(tmp_path), gradient_checkpointing=False, **how
    )
    words = word_tokenizer()
    texts = {"SFT": {"text": "5 6 7"}, "DPO": {"prompt": "5", "chosen": " 6", "rejected": " 7"}}
    rows = datasets.Dataset.from_list([texts[kind]] * 8)
    model = patchgen.load("llama_loss", checkpoints / "llama_loss")
    trainer = getattr(trl, f"{kind}Trainer")(
        model=model, args=arguments, train_dataset=rows, processing_class=words
    )
    with pytest.warns(UserWarning, match="TRL computes the loss"):
        trainer.train()


@pytest.mark.slow
def test_a_mixtures_router_losses_are_not_trls(checkpoints, tmp_path):
    """TRL balances routers as transformers does, without the mixture's z-loss, and a warning says so."""
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    from tests.use.words import word_tokenizer

    def losses(**changes):
        model = patchgen.load("llama_moe", checkpoints / "llama_loss", num_experts=4)
        how = {
            "report_to": [],
            "save_strategy": "no",
            "use_cpu": True,
            "bf16": False,
            "disable_tqdm": True,
        }
        arguments = trl.SFTConfig(
            output_dir=str(tmp_path), max_steps=1, logging_steps=1, **how, **changes
        )
        rows = datasets.Dataset.from_list(
            [{"input_ids": e["input_ids"].tolist()} for e in examples()]
        )
        trainer = trl.SFTTrainer(
            model=model, args=arguments, train_dataset=rows, processing_class=word_tokenizer()
        )
        return trainer.train().training_loss

    with pytest.warns(UserWarning, match="no z-loss"):
        balanced = losses()
    assert balanced > losses(router_aux_loss_coef=0.0) > 0
