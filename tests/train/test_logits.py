"""Whoever reads logits of a step with labels gets the parent's, in Trainer; nobody else's step has any."""

import numpy
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")
pytest.importorskip("transformers")

from transformers import Trainer, TrainingArguments
from transformers.models.llama import modeling_llama

from generated.llama import modeling_llama_loss
from patchgen.runtime.tiny import tiny_config

DRAW = torch.Generator().manual_seed(0)
TEXTS = [torch.randint(3, 90, (12,), generator=DRAW) for _ in range(8)]
ROWS = [{"input_ids": text, "labels": text} for text in TEXTS]


class OwnLoss(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        logits, labels = outputs.logits[:, :-1].flatten(0, 1), inputs["labels"][:, 1:].flatten()
        loss = torch.nn.functional.cross_entropy(logits.float(), labels, label_smoothing=0.1)
        return (loss, outputs) if return_outputs else loss


def of_scores(found):
    return {"mean": float(numpy.abs(found.predictions).mean())}


def of_words(found):
    return {"right": float((found.predictions == found.label_ids).mean())}


def words(logits, labels):
    return logits.argmax(-1)


METRICS = {"compute_metrics": of_scores}
WORDS = {"compute_metrics": of_words, "preprocess_logits_for_metrics": words}
# The trainer, its arguments, its options, and which of training and evaluation read logits.
READERS = {
    "nobody": (Trainer, {}, {}, (False, False)),
    "metrics": (Trainer, {}, METRICS, (False, True)),
    "metrics of words": (Trainer, {}, WORDS, (False, True)),
    "metrics in bfloat16": (Trainer, {"bf16": True}, METRICS, (False, True)),
    "accumulation": (Trainer, {"gradient_accumulation_steps": 2}, METRICS, (False, True)),
    "label smoothing": (Trainer, {"label_smoothing_factor": 0.1}, METRICS, (False, False)),
    "an own loss": (OwnLoss, {}, METRICS, (True, True)),
    "an own loss in bfloat16": (OwnLoss, {"bf16": True}, METRICS, (True, True)),
}


@pytest.fixture
def reads(monkeypatch):
    """The shapes of logits that were computed after the forward pass."""
    seen, defer = [], modeling_llama_loss.defer

    def noted(compute, shape, *given):
        def note():
            seen.append(tuple(shape))
            return compute()

        return defer(note, shape, *given)

    monkeypatch.setattr(modeling_llama_loss, "defer", noted)
    return seen


@pytest.mark.parametrize("name", READERS)
def test_trainer_reads_what_it_reads_of_the_parent(name, tmp_path, reads):
    trainer_class, arguments, options, (in_training, in_evaluation) = READERS[name]
    found = []
    for module in (modeling_llama, modeling_llama_loss):
        torch.manual_seed(0)
        settings = TrainingArguments(
            str(tmp_path),
            use_cpu=True,
            max_steps=3,
            per_device_train_batch_size=2,
            per_device_eval_batch_size=4,
            learning_rate=1e-2,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            **arguments,
        )
        model = module.LlamaForCausalLM(tiny_config("llama"))
        trainer = trainer_class(model, settings, train_dataset=ROWS, eval_dataset=ROWS, **options)
        trained = trainer.train().training_loss
        read_in_training = bool(reads)
        reads.clear()
        evaluated = trainer.evaluate()
        read_in_evaluation = bool(reads)
        predicted = trainer.predict(ROWS).predictions
        numbers = {
            k: v for k, v in evaluated.items() if k in ("eval_loss", "eval_mean", "eval_right")
        }
        found.append((trained, numbers, predicted))
    assert (read_in_training, read_in_evaluation) == (in_training, in_evaluation)
    (loss, metrics, scores), (own_loss, own_metrics, own_scores) = found
    assert own_loss == pytest.approx(loss, rel=1e-3)
    assert own_metrics == pytest.approx(metrics, rel=1e-2)
    assert own_scores.shape == scores.shape
    numpy.testing.assert_allclose(own_scores, scores, rtol=0.05, atol=0.02)
