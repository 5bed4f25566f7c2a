"""Measures a training step on one core where layers run on real tokens only, beside stock BERT.

    python benchmarks/padding.py [--repeat N]

Four layers of size 256 and 8,000 words.  A batch has 16 texts of 16 to 128 tokens; 44 % is padding,
and 15 % of the tokens have a label.  float32, no dropout.  Figures are CPU seconds of forward and
backward, medians over the repeats.  Models take turns, and their losses are compared first.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM, PreTrainedModel

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from generated.bert import (
    modeling_bert_mlm,
    modeling_bert_mlm_padding_free,
    modeling_bert_padding_free,
)

VARIANTS = (modeling_bert_mlm, modeling_bert_padding_free, modeling_bert_mlm_padding_free)
WORDS = 8000
CONFIG = BertConfig(
    vocab_size=WORDS,
    hidden_size=256,
    intermediate_size=1024,
    num_hidden_layers=4,
    num_attention_heads=4,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def batch() -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(0)
    lengths = torch.linspace(16, 128, 16).int()[torch.randperm(16, generator=draw)]
    mask = (torch.arange(128) < lengths[:, None]).long()
    ids = torch.randint(1, WORDS, mask.shape, generator=draw) * mask
    labelled = (torch.rand(mask.shape, generator=draw) < 0.15) & mask.bool()
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(~labelled, -100)}


def step(model: PreTrainedModel, given: dict[str, Tensor]) -> tuple[float, float]:
    """The loss, and the CPU seconds that it and its gradients took."""
    model.zero_grad()
    start = time.process_time()
    loss = model(**given).loss
    loss.backward()
    return loss.item(), time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=9, metavar="N")
    repeat = parser.parse_args().repeat
    torch.set_num_threads(1)
    torch.manual_seed(0)
    parent = BertForMaskedLM(CONFIG)
    models = {"transformers": parent}
    for module in VARIANTS:
        models[module.__name__.rpartition(".")[2].removeprefix("modeling_")] = (
            module.BertForMaskedLM(CONFIG)
        )
    for model in models.values():
        model.load_state_dict(parent.state_dict())
        model.train()
    given = batch()
    losses = torch.tensor(
        [step(model, given)[0] for model in models.values()]
    )  # and nothing is cold after it
    torch.testing.assert_close(losses, losses[:1].expand_as(losses))
    rounds = [[step(model, given)[1] for model in models.values()] for _ in range(repeat)]
    spent = dict(
        zip(models, (statistics.median(each) for each in zip(*rounds, strict=True)), strict=True)
    )
    print(
        f"torch {torch.__version__}, one core of {torch.backends.cpu.get_cpu_capability()}, "
        f"median of {repeat}"
    )
    for name, seconds in spent.items():
        print(f"{name:22} {seconds:5.2f} s  {seconds / spent['transformers']:4.0%}")


if __name__ == "__main__":
    main()
