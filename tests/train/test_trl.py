"""TRL's trainers train a variant as they train its parent, and compute no logits more.

TRL 1.16 takes the loss of a language model by a head of its own; a warning says that the part `loss`
does not run there.
"""

from __future__ import annotations

import copy
import warnings

import pytest

torch = pytest.importorskip("torch")
datasets = pytest.importorskip("datasets")
transformers = pytest.importorskip("transformers")
trl = pytest.importorskip("trl")
peft = pytest.importorskip("peft")
orpo = pytest.importorskip("trl.experimental.orpo")

from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gpt2 import modeling_gpt2
from transformers.models.llama import modeling_llama
from transformers.models.qwen3 import modeling_qwen3

import patchgen
from patchgen.facts.sizes import FIRST_WORD, SIZES
from patchgen.runtime.tiny import tiny_config
from tests.use.words import word_tokenizer

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::FutureWarning")]

VARIANTS = {
    "llama_loss": modeling_llama.LlamaForCausalLM,
    "llama_fast": modeling_llama.LlamaForCausalLM,
    "llama_packed": modeling_llama.LlamaForCausalLM,  # without the part `loss`
    "qwen3_fast": modeling_qwen3.Qwen3ForCausalLM,
    "gpt2_loss": modeling_gpt2.GPT2LMHeadModel,
    "gemma2_loss": modeling_gemma2.Gemma2ForCausalLM,
}
CLASSIFIERS = {
    "llama_loss": modeling_llama.LlamaForSequenceClassification,
    "llama_fast": modeling_llama.LlamaForSequenceClassification,
    "qwen3_fast": modeling_qwen3.Qwen3ForSequenceClassification,
    "gpt2_loss": modeling_gpt2.GPT2ForSequenceClassification,
}


def text(start, length=6):
    words = SIZES["vocab_size"] - FIRST_WORD
    return " ".join(str(FIRST_WORD + (start * 7 + at * 5) % words) for at in range(length))


def distinct_words(completions, **rest):
    return [float(len(set(completion.split()))) for completion in completions]


def words(logits, labels):
    return logits.argmax(-1)


def share_of_right_words(evaluated):
    return {"right": float((evaluated.predictions == evaluated.label_ids).mean())}


def smoothed(outputs, labels, num_items_in_batch=None):
    logits, labels = outputs.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    return torch.nn.functional.cross_entropy(logits.float(), labels, label_smoothing=0.1)


TEXTS = [{"text": text(at, 5 + at)} for at in range(8)]
PROMPTS = [{"prompt": text(at)} for at in range(8)]
PAIRS = [
    {"prompt": text(at), "chosen": f" {text(at + 1)}", "rejected": f" {text(at + 2, 4)}"}
    for at in range(8)
]
JUDGED = [
    {"prompt": text(at), "completion": f" {text(at + 1)}", "label": at % 2 == 0} for at in range(8)
]
RANKED = [{"chosen": text(at), "rejected": text(at + 3, 4)} for at in range(8)]
SAMPLES = {"num_generations": 2, "max_completion_length": 6}
REWARD = {"reward_funcs": distinct_words}
METRICS = {
    "eval_dataset": datasets.Dataset.from_list(TEXTS),
    "compute_metrics": share_of_right_words,
    "preprocess_logits_for_metrics": words,
}
LORA = {"peft_config": peft.LoraConfig(target_modules="all-linear", r=4)}
# The trainer, its rows, arguments of its configuration, and options of its own.
TRAINERS = {
    "SFT": ("SFT", TEXTS, {}, {}),
    "SFT, evaluated": ("SFT", TEXTS, {"eval_strategy": "steps", "eval_steps": 1}, METRICS),
    "SFT, accumulated": ("SFT", TEXTS, {"gradient_accumulation_steps": 2}, {}),
    "SFT, smoothed": ("SFT", TEXTS, {"label_smoothing_factor": 0.1}, {}),
    "SFT, an own loss": ("SFT", TEXTS, {}, {"compute_loss_func": smoothed}),
    "SFT, dft": ("SFT", TEXTS, {"loss_type": "dft"}, {}),
    "SFT, LoRA": ("SFT", TEXTS, {}, LORA),
    "DPO": ("DPO", PAIRS, {}, {}),
    "KTO": ("KTO", JUDGED, {"per_device_train_batch_size": 4}, {}),
    "GRPO": ("GRPO", PROMPTS, SAMPLES, REWARD),
    "GRPO, LoRA": ("GRPO", PROMPTS, {**SAMPLES, "beta": 0.1}, {**REWARD, **LORA}),
    "RLOO": ("RLOO", PROMPTS, SAMPLES, REWARD),
    "ORPO": ("ORPO", PAIRS, {}, {}),
}
READ_LOGITS = {"ORPO"}  # these call the model without labels


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """A tiny checkpoint of each parent, by its name."""
    top = tmp_path_factory.mktemp("checkpoints")
    for parent in {*VARIANTS.values(), *CLASSIFIERS.values()}:
        transformers.set_seed(0)
        parent(tiny_config(parent.config_class, num_labels=1)).save_pretrained(
            top / parent.__name__
        )
    return top


@pytest.fixture
def projected(monkeypatch):
    """The tokens of each call of a head."""
    seen, forward = [], torch.nn.Linear.forward

    def counted(self, states):
        if self.out_features == SIZES["vocab_size"]:
            seen.append(states.shape[:-1].numel())
        return forward(self, states)

    monkeypatch.setattr(torch.nn.Linear, "forward", counted)
    return seen


def trained(kind, model, rows, changes, options, folder):
    """Losses, norms of gradients and metrics of three steps, and the warnings about the loss."""
    settings = {
        "output_dir": str(folder),
        "max_steps": 3,
        "logging_steps": 1,
        "per_device_train_batch_size": 2,
        "per_device_eval_batch_size": 4,
        "learning_rate": 1e-2,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
        **changes,
    }
    library = trl if kind != "ORPO" else orpo
    trainer = getattr(library, f"{kind}Trainer")(
        model=model,
        args=getattr(library, f"{kind}Config")(**settings),
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=word_tokenizer(),
        **copy.deepcopy(options),
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.train()
    logged = [
        {name: entry[name] for name in entry if name in LOGGED}
        for entry in trainer.state.log_history
    ]
    said = sum("TRL computes the loss" in str(each.message) for each in caught)
    return [entry for entry in logged if entry], said


LOGGED = {"loss", "grad_norm", "eval_loss", "eval_right", "entropy", "reward"}


def compare(parent, variant, kind, how, checkpoint, projected, folder):
    """Both trained alike; what was logged, and how often the variant warned."""
    expected, _ = trained(kind, parent.from_pretrained(checkpoint), *how, folder)
    of_parent = list(projected)
    projected.clear()
    found, said = trained(kind, patchgen.load(variant, checkpoint), *how, folder)
    assert len(found) >= 3 and any("loss" in entry for entry in found)
    assert found == [pytest.approx(entry, rel=1e-4) for entry in expected]
    assert projected == of_parent
    return of_parent, said


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", TRAINERS)
def test_a_language_model(name, variant, checkpoints, projected, tmp_path):
    kind, *how = TRAINERS[name]
    parent = VARIANTS[variant]
    checkpoint = checkpoints / parent.__name__
    of_parent, said = compare(parent, variant, kind, how, checkpoint, projected, tmp_path)
    assert bool(of_parent) == (name not in COMPUTE_NO_LOGITS)
    assert said == (variant != "llama_packed" and name not in READ_LOGITS)


COMPUTE_NO_LOGITS = {"SFT", "SFT, accumulated", "SFT, dft", "SFT, LoRA", "DPO", "KTO"}


@pytest.mark.parametrize("variant", CLASSIFIERS)
def test_a_reward_model(variant, checkpoints, projected, tmp_path):
    parent = CLASSIFIERS[variant]
    checkpoint = checkpoints / parent.__name__
    _, said = compare(parent, variant, "Reward", (RANKED, {}, {}), checkpoint, projected, tmp_path)
    assert said == 0


@pytest.mark.parametrize(
    "changes",
    [{"packing": True, "max_length": 16}, {"padding_free": True, "max_length": None}],
    ids=["packed", "padding-free"],
)
@pytest.mark.parametrize("variant", ["llama_fast", "qwen3_fast"])
def test_texts_in_one_row_stay_apart(variant, changes, checkpoints, tmp_path):
    """In a variant that reads their lengths, as in the parent with a mask for each."""
    parent = VARIANTS[variant]
    checkpoint = checkpoints / parent.__name__
    alone = {**changes, "packing": False, "padding_free": False, "max_length": None}
    rows = TEXTS[:4]
    steps = {"max_steps": 1, "per_device_train_batch_size": 4}
    model = parent.from_pretrained(checkpoint, attn_implementation="sdpa")
    (expected, *_), _ = trained("SFT", model, rows, {**alone, **steps}, {}, tmp_path)
    model = patchgen.load(variant, checkpoint, attn_implementation="varlen")
    (found, *_), _ = trained("SFT", model, rows, {**changes, **steps}, {}, tmp_path)
    assert found == pytest.approx(expected, rel=1e-4)
