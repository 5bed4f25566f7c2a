"""How many floating-point operations a step needs, forward and backward, by the structure of the stock model.

The convention: what the task needs and nothing that could be left out.  Six for each weight of a product and token
that passes it; real tokens only; a language model's head at tokens that have a label; causal attention once, not the
half that is masked; of experts those that a token chose.  Norms, activations and the optimizer are not counted, nor is
what checkpointing computes again.  So a contestant that does less than the others does not get a lower share for it.
"""

from __future__ import annotations

from torch import nn

from patchgen.bench.case import Case
from patchgen.bench.compiling import layers_of
from patchgen.bench.texts import Batch


def work_of(case: Case, model: nn.Module, batch: Batch) -> float:
    """Operations of one step over the batch."""
    layers = layers_of(model)
    inside = {id(module) for layer in layers for module in layer.modules()}
    experts, chosen = _experts(model)
    per_token = sum(_weights(layer, experts, chosen) for layer in layers)
    head = sum(_own_products(module, experts, chosen) for module in model.modules() if id(module) not in inside)
    return 6.0 * (per_token * batch.tokens + head * batch.labelled) + _attention(case, model, len(layers), batch)


def _weights(layer: nn.Module, experts: int, chosen: int) -> float:
    return sum(_own_products(module, experts, chosen) for module in layer.modules())


def _own_products(module: nn.Module, experts: int, chosen: int) -> float:
    if isinstance(module, nn.Embedding):
        return 0.0
    own = module.parameters(recurse=False)
    return sum(
        p.numel() * (chosen / experts if p.dim() == 3 and len(p) == experts else 1.0) for p in own if p.dim() > 1
    )


def _experts(model: nn.Module) -> tuple[int, int]:
    """How many there are, and how many a token chooses."""
    config = model.config.get_text_config()
    experts = getattr(config, "num_local_experts", None) or getattr(config, "num_experts", None) or 1
    return int(experts), int(getattr(config, "num_experts_per_tok", None) or 1)


def _attention(case: Case, model: nn.Module, layers: int, batch: Batch) -> float:
    """Two products of scores forward, four backward; each token meets its own text."""
    config = model.config.get_text_config()
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    pairs = sum(length * length for length in batch.texts)
    return 12.0 * layers * config.num_attention_heads * size * pairs * (0.5 if case.task == "causal" else 1.0)
