"""The part `loss` under DeepSpeed's ZeRO: logits that a loss reads have their gradient, in stage 3 too."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
deepspeed = pytest.importorskip("deepspeed", reason="pip install 'patchgen[deepspeed]'")

from torch import distributed
from transformers.models.bert import modeling_bert
from transformers.models.llama import modeling_llama

from generated.bert import modeling_bert_mlm
from generated.llama import modeling_llama_loss
from patchgen.runtime.tiny import tiny_config
from tests.parallel.forked import forked

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SIDES = {
    "llama": (modeling_llama.LlamaForCausalLM, modeling_llama_loss.LlamaForCausalLM),
    "bert": (modeling_bert.BertForMaskedLM, modeling_bert_mlm.BertForMaskedLM),
}


def of_the_loss(out):
    return out.loss


def of_both(out):
    return out.loss + out.logits.float().logsumexp(-1).mean()


def steps(kind, stage, reader):
    """The losses of three steps, and what the part said."""
    torch.manual_seed(0)
    model = kind(tiny_config(kind.config_class)).train()
    settings = {
        "train_micro_batch_size_per_gpu": 2,
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
        "zero_allow_untested_optimizer": True,
    }
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    engine, *_ = deepspeed.initialize(model=model, config=settings, optimizer=optimizer)
    torch.manual_seed(distributed.get_rank())
    losses = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            tokens = torch.randint(3, 90, (2, 9))
            out = engine(input_ids=tokens, labels=tokens.where(tokens % 3 == 0, -100))
            engine.backward(reader(out))
            engine.step()
            losses.append(out.loss.detach())
    return torch.stack(losses), {str(each.message) for each in caught} & SAID


SAID = {
    "the loss reads logits: Linear is sharded or quantized, or has hooks or an adapter",
    "the head runs on all tokens: ZeRO-3 has sharded it",
}


@pytest.mark.parametrize("name", SIDES)
def test_a_head_under_zero(name, monkeypatch):
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")

    def run():
        deepspeed.init_distributed("gloo")
        parent, variant = SIDES[name]
        for stage in (2, 3):
            for reader in (of_the_loss, of_both):
                expected, _ = steps(parent, stage, reader)
                found, said = steps(variant, stage, reader)
                torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
                assert bool(said) == (stage == 3), (stage, said)
        distributed.destroy_process_group()

    forked(run)
