"""The loss of a head whose words tensor parallelism has split: without logits, and as the parent's."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch import distributed
from transformers import DistributedConfig

from patchgen.runtime.tiny import tiny_config
from tests.drafts import both_classes
from tests.parallel.forked import forked

WORDS = 97  # one process has 49, the other 48
# A model, its head, and the tokens in a chunk.
SIDES = {
    "llama": ("llama", "LlamaForCausalLM", None),
    "logits kept": ("llama", "LlamaForCausalLM", 18),
    "in chunks": ("llama", "LlamaForCausalLM", 5),
    "capped": ("gemma2", "Gemma2ForCausalLM", None),
    "qwen3": ("qwen3", "Qwen3ForCausalLM", None),
}


def whole(tensor):
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach().clone()


def step(model, tokens, labels, projected, **options):
    """The loss, the gradients, the logits, and the rows that the head projected before they were read."""
    projected.clear()
    out = model(input_ids=tokens, labels=labels, **options)
    out.loss.mean().backward()
    rows = sum(projected)
    gradients = {name: whole(each.grad) for name, each in model.named_parameters()}
    return out.loss.detach(), gradients, out.logits.detach() + 0, rows


def counted(seen):
    forward = torch.nn.Linear.forward

    def counting(self, states):
        if self.out_features == WORDS:
            seen.append(states.shape[:-1].numel())
        return forward(self, states)

    torch.nn.Linear.forward = counting


@pytest.mark.parametrize("name", SIDES)
def test_a_split_head(name, tmp_path):
    model, head, chunk = SIDES[name]
    parent, variant = both_classes(model, "split_loss", head, tmp_path / "draft")
    parent(tiny_config(parent.config_class, tie_word_embeddings=False)).save_pretrained(
        tmp_path / "tiny"
    )

    def run():
        distributed.init_process_group("gloo")
        torch.manual_seed(0)
        tokens = torch.randint(3, 90, (2, 9))
        labels = torch.where(tokens % 3 == 0, -100, tokens)
        labels[0, 1], labels[0, 2], labels[1, 3] = 48, 49, 96
        seen = []
        counted(seen)
        how = {"distributed_config": DistributedConfig(tp_size=2, tp_plan="auto")}
        sides = [
            each.from_pretrained(tmp_path / "tiny", **how).train() for each in (parent, variant)
        ]
        sides[1].config.loss_chunk_size = chunk
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            *expected, of_parent = step(sides[0], tokens, labels, seen)
            *found, of_variant = step(sides[1], tokens, labels, seen)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        assert (of_parent, of_variant) == (tokens.numel(), 0)
        assert type(sides[1].get_output_embeddings().weight.data).__name__ == "DTensor"
        distributed.destroy_process_group()

    forked(run)


def test_the_part_loss_says_once_that_it_reads_logits(tmp_path):
    parent, variant = both_classes("llama", "loss", "LlamaForCausalLM", tmp_path / "draft")
    config = tiny_config(parent.config_class, tie_word_embeddings=False)
    parent(config).save_pretrained(tmp_path / "tiny")

    def run():
        distributed.init_process_group("gloo")
        tokens = torch.randint(3, 90, (2, 9), generator=torch.Generator().manual_seed(0))
        how = {"distributed_config": DistributedConfig(tp_size=2, tp_plan="auto")}
        sides = [each.from_pretrained(tmp_path / "tiny", **how) for each in (parent, variant)]
        with pytest.warns(UserWarning, match="the loss reads logits"):
            expected, found = (each(input_ids=tokens, labels=tokens).loss for each in sides)
        torch.testing.assert_close(found, expected)
        distributed.destroy_process_group()

    forked(run)
