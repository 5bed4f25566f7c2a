"""What anatomy finds in all modeling modules of transformers 5.23.0, as a ratchet.

The counts come from other scripts, written before this code.  Comments explain the differences.
"""

from __future__ import annotations

import collections
from pathlib import Path

import pytest

from patchgen.author.anatomy.attention import Attentions, Layers, experts
from patchgen.author.anatomy.ffn import feed_forwards, network_of
from patchgen.author.anatomy.module import every_module, open_module
from patchgen.author.declare.loss import heads
from patchgen.syntax.locate import make_environment
from tests.corpus.corpus import find_package

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_package() is None, reason="the counts are of another release of transformers"
    ),
]

EXACT = {
    "modules": 530,
    "with a class named Attention": 442,
    "interface": 348,
    "calls of the interface": 445,
    # 102 by the flags of imported classes: ESMFold has those of ESM, which stand in another file.
    "attention, neither SDPA nor FlashAttention": 103,
    "attention, no checkpointing": 66,
    "experts by the interface": 64,
    "experts in a loop": 7,
    "experts as rows of tables": 1,
}
AT_LEAST = {
    "written out": 70,
    "lists of layers": 436,
    "ffn gated": 123,
    "ffn plain": 122,
    "ffn split": 66,
    "ffn halves": 13,
    # Wherever in a file.
    "anywhere gated": 137,
    "anywhere plain": 146,
    "anywhere split": 77,
    # 158 causal heads, 5 masked and 105 conditional ones by other scripts.
    "heads that call the loss function": 276,
    "heads with a loss of their own": 120,
}


@pytest.fixture(scope="module")
def table():
    env = make_environment(Path.cwd())
    found = collections.Counter()
    for name in every_module(env):
        module = open_module(env, name)
        attentions = Attentions(module)
        found.update(_facts(module, attentions, Layers(module)))
        found["calls of the interface"] += len(attentions.interfaces)
        for head in heads(module):
            if head.by_function:
                found["heads that call the loss function"] += 1
            else:
                found["heads with a loss of their own"] += 1
    return found


def _facts(module, attentions, layers):
    """What is so in this module."""
    yield "modules"
    attends = any("Attention" in name for name in module.classes)
    yield from ["with a class named Attention"] * attends
    yield from ["interface"] * bool(attentions.interfaces)
    yield from ["written out"] * bool(attentions.chains)
    if (
        attends
        and not attentions.flag("_supports_sdpa")
        and not attentions.flag("_supports_flash_attn")
    ):
        yield "attention, neither SDPA nor FlashAttention"
    if attends and not attentions.flag("supports_gradient_checkpointing"):
        yield "attention, no checkpointing"
    yield from ["lists of layers"] * bool(layers.classes)
    yield from {f"ffn {one.form}" for one in feed_forwards(layers)}
    yield from {
        f"anywhere {form}" for owner in module.classes.values() if (form := network_of(owner)[0])
    }
    kinds = {
        "interface": "experts by the interface",
        "loop": "experts in a loop",
        "dense": "experts all at once",
    }
    kinds["gathered"] = "experts as rows of tables"
    yield from {kinds[kind] for kind in experts(module).values()}


@pytest.mark.parametrize("fact", EXACT)
def test_what_is_counted_exactly(table, fact):
    assert table[fact] == EXACT[fact]


@pytest.mark.parametrize("fact", AT_LEAST)
def test_what_may_only_grow(table, fact):
    assert table[fact] >= AT_LEAST[fact]
