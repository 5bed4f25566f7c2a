"""Counts the floating-point operations of a model on shapes, without weights.

Only what the task needs is counted: six FLOPs for each weight of a product and token, two in the
forward and four in the backward pass.  Padding does not count.  The head of a language model counts
for tokens with a label, causal attention without its masked half, and experts for the tokens that
chose them.  Norms, activations, the optimizer and recomputation do not count.  The forward pass is
that of the stock model, so that a variant which computes less does not get a lower MFU.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry
from transformers import PreTrainedConfig, PreTrainedModel

from patchgen.runtime.checkpointing import storage_of
from patchgen.syntax.errors import PatchgenError
from patchgen.training.memory.shape_mode import shapes_only
from patchgen.training.memory.step import BUILD_ERRORS
from patchgen.training.memory.target import batch_for
from patchgen.training.silence import silence_models
from patchgen.verifying.observe.recorder import Args, Given, Listener, listening
from patchgen.verifying.observe.step import takes_cache

FORWARD_AND_BACKWARD = 3  # a backward pass takes twice the products of its forward pass
aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class ForwardCost:
    """The cost of one forward pass.

    body     FLOPs with weights of the base model, for each token
    head     FLOPs with all other weights, for each token that the head computes
    between  FLOPs without weights, as in attention, for each pair of tokens of one text
    """

    body: float
    head: float
    between: float

    def step(
        self, *, tokens: float, labelled: float, pairs: float, causal: bool, frozen: bool = False
    ) -> float:
        """Return the FLOPs of a training step, forward and backward.

        `tokens` are real tokens, and `labelled` those that the head computes.  `pairs` is the sum
        of squared text lengths; `causal` texts need half of it.  `frozen` weights need no
        gradients.
        """
        attention = self.between * pairs * (0.5 if causal else 1.0)
        weights = self.body * tokens + self.head * labelled
        of_weights = 2 if frozen else FORWARD_AND_BACKWARD
        return of_weights * weights + FORWARD_AND_BACKWARD * attention


def count_pairs(lengths: Iterable[int]) -> int:
    """Return the number of token pairs in texts of these lengths."""
    return sum(length * length for length in lengths)


def count_forward_flops(
    model_class: type[PreTrainedModel], config: PreTrainedConfig, length: int
) -> ForwardCost | None:
    """Return the cost of a row of `length` tokens; None where shapes do not determine it.

    Some models have fewer positions than their configuration says; they are counted with half the
    length.
    """
    kind: Any = getattr(transformers, model_class.__name__, model_class)  # the stock one, if any
    settings = config.to_json_string(use_diff=False)
    return _counted(kind, settings, length) or _counted(kind, settings, max(1, length // 2))


@functools.lru_cache(maxsize=32)
def _counted(model_class: Any, settings: str, length: int) -> ForwardCost | None:
    """Return the cost of a row, counted once: the entries of a benchmark ask for the same again."""
    config = model_class.config_class(**json.loads(settings))
    module = sys.modules[model_class.__module__]
    given = batch_for(model_class, config, 1, length)
    try:
        with silence_models(), torch.no_grad(), shapes_only(module) as shapes:
            model = model_class._from_config(config, dtype=torch.float32)
            inputs: dict[str, Any] = {}
            for name, value in given.items():
                inputs[name] = torch.empty_like(value)
                shapes.values.tell(inputs[name], value)
            if takes_cache(model_class):
                inputs["use_cache"] = False
            with listening(counter := _Counter(model)):
                model(**inputs)
    except (PatchgenError, ValueError, *BUILD_ERRORS):
        return None
    tokens = given["input_ids"].numel() if "input_ids" in given else length
    # The head of a classifier computes one token.
    head_tokens = tokens if counter.head_rows > 1 else 1
    between = counter.between / count_pairs([tokens])
    return ForwardCost(counter.body / tokens, counter.head / head_tokens, between)


class _Counter(Listener):
    """Adds up the FLOPs of products, by the owner of their weights."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.body = self.head = self.between = 0.0
        self.head_rows = 0
        self.weights = {storage_of(weight) for weight in model.parameters()}
        inner = {storage_of(weight) for weight in model.base_model.parameters()}
        # The head's weights; tied ones also are the embedding's.
        self.head_weights = self.weights - inner
        words = getattr(model.get_output_embeddings(), "weight", None)
        if isinstance(words, Tensor):
            self.head_weights.add(storage_of(words))
        text = model.config.get_text_config()
        experts = getattr(text, "num_local_experts", None) or getattr(text, "num_experts", None)
        chosen = getattr(text, "num_experts_per_tok", None) or 1
        self.shares: dict[int, float] = {}  # of all tokens, that experts run for
        for weight in model.parameters():
            if weight.dim() == 3 and len(weight) == experts:
                self.shares[storage_of(weight)] = chosen / experts

    def ran(self, operation: Any, args: Args, given: Given, out: Any) -> None:
        count = _operations(operation, args, given, out)
        if not count:
            return
        tensors = [leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor)]
        weights = [storage_of(each) for each in tensors if storage_of(each) in self.weights]
        if not weights:
            self.between += count
            return
        # The matrix of a product is the last argument; `addmm` has its bias first.
        weight = weights[-1]
        if weight in self.head_weights:
            self.head += count
            self.head_rows = max(self.head_rows, *(len(tensor) for tensor in tensors))
        elif operation is aten._grouped_mm.default:  # of the chosen ones alone
            self.body += count
        else:
            self.body += count * self.shares.get(weight, 1.0)


def _operations(func: Any, args: Args, kwargs: Given, out: Any) -> float:
    """Return the FLOPs of one operation; 0 where it is no product."""
    name = func._opname
    if "scaled_dot_product" in name and "backward" not in name:
        query, key, value = args[:3]
        queries = query.shape[:-1].numel()
        keys = key.shape[-2]
        width = query.shape[-1] + value.shape[-1]
        return 2.0 * queries * keys * width
    if func is aten._grouped_mm.default:
        rows, weights = args[:2]
        return 2.0 * rows.shape.numel() * weights.shape[-1]
    count = flop_registry.get(func._overloadpacket)
    if count is None:
        return 0.0
    return float(count(*args, **kwargs, out_val=out))
