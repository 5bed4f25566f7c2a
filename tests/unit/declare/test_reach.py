"""How many models of transformers 5.23.0 each part is written for, as a ratchet."""

from __future__ import annotations

import collections
from pathlib import Path

import pytest

from patchgen.author.anatomy.module import every_module, find_module, open_module
from patchgen.author.declare.registry import writers
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package

pytestmark = pytest.mark.skipif(
    find_package() is None, reason="the counts are of another release of transformers"
)

# Models that people train.
TRAINED = """
    llama qwen2 qwen3 qwen3_moe mistral mixtral gemma gemma2 gemma3 phi phi3 gpt2 gpt_neox bert
    roberta distilbert deberta_v2 electra modernbert t5 bart vit clip whisper deepseek_v3 olmo2
    granite starcoder2 falcon bloom opt cohere llama4 gpt_oss qwen2_vl
""".split()
# Of those: written, and redundant because transformers does it.
OF_TRAINED = {
    "sdpa": (3, 31),
    "checkpoint": (5, 30),
    "loss": (29, 0),
    "split_loss": (23, 0),
    "norm": (33, 0),
    "moe": (17, 0),
    "flash": (16, 0),
    "kernels": (18, 0),
    "bidirectional": (20, 4),
    "replay": (5, 0),
    "packed": (0, 0),
    "logprobs": (28, 0),
    "linears": (3, 0),
}
# Checkpointing is redundant in nearly 300 more, which transformers checkpoints.
AT_LEAST = {"sdpa": 81, "checkpoint": 140, "loss": 248, "norm": 431, "moe": 53}
AT_LEAST |= {"packed": 21, "linears": 61}


def counted(names, parts):
    env = make_environment(Path.cwd())
    counts = {part: collections.Counter() for part in parts}
    for name in names(env):
        module = open_module(env, name)
        for part, outcomes in counts.items():
            outcomes[_outcome(writers()[part](module))] += 1
    return counts


def _outcome(contribution):
    if contribution.redundant:
        return "redundant"
    return "refused" if any(missing.fatal for missing in contribution.missing) else "written"


def test_models_that_people_train():
    assert list(OF_TRAINED) == list(writers())
    counts = counted(lambda env: [find_module(env, model) for model in TRAINED], OF_TRAINED)
    for part, (written, redundant) in OF_TRAINED.items():
        outcomes = counts[part]
        assert outcomes["written"] >= written and outcomes["redundant"] == redundant, part


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_reach():
    counts = counted(every_module, AT_LEAST)
    assert all(counts[part]["written"] >= least for part, least in AT_LEAST.items()), counts
