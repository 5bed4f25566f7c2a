"""The models of one case, all over the same weights.

The models of all entries share their parameters, so only one model's weights are in memory, and
entries can take turns.  `reset` restores the initial weights.  Their values are exact in bfloat16,
so that the float32 reference starts from the same ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import nn
from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedModel

from patchgen.runtime.checkpointing import options_of, switch_on
from patchgen.runtime.classes import module_of
from patchgen.runtime.variants import find_variant
from patchgen.training.bench.case import Case
from patchgen.training.bench.competitors import (
    Unavailable,
    apply_liger,
    check_available,
    flash_of_torch,
    force_backend,
)
from patchgen.training.bench.compiling import Masks, compile_model
from patchgen.training.bench.entry import Entry
from patchgen.training.bench.texts import Batch, make_batch
from patchgen.training.patching import Patch, patched
from patchgen.training.precision import autocast_to, weights_in
from patchgen.verify.configs.tiny import tiny_config

# Of a tiny model: enough words that logits take a share of the memory, as in large models.
TINY = {"vocab_size": 768, "num_hidden_layers": 2}
DROPOUT = 0.1  # of tiny models in cases that have it


@dataclass(frozen=True, slots=True)
class Scale:
    """The device and the size: `tiny` models run in float32 on a CPU, for checks without times."""

    device: str
    tiny: bool = False


@dataclass(slots=True)
class PreparedEntry:
    """An entry with its model and batch, and the masks that were seen."""

    entry: Entry
    model: PreTrainedModel
    batch: Batch
    patches: tuple[Patch, ...]
    masks: Masks = field(default_factory=list)
    more: tuple[Batch, ...] = ()  # batches that take turns with the first

    def on(self) -> ExitStack:
        """Return a context in which the entry runs with its patches and backend."""
        stack = ExitStack()
        stack.enter_context(patched(*self.patches))
        stack.enter_context(force_backend(self.entry.backend))
        return stack


class CaseSetup:
    """The weights of one case, and the models over them."""

    def __init__(self, case: Case, scale: Scale) -> None:
        self.case, self.scale = case, scale
        torch.manual_seed(0)
        with torch.device(scale.device):
            stock = self.stock(case)._from_config(
                make_config(case, scale.tiny), attn_implementation="eager"
            )
        self.parameters = dict(stock.named_parameters(remove_duplicate=False))
        distinct = dict(stock.named_parameters())
        self.initial = {name: _kept(parameter, scale) for name, parameter in distinct.items()}
        self.distinct = distinct
        self.words: int = stock.config.get_text_config().vocab_size

    @staticmethod
    def stock(case: Case) -> type[PreTrainedModel]:
        """Return the case's class in transformers."""
        return getattr(transformers, case.head)

    def dtype(self, entry: Entry) -> torch.dtype:
        """Return the dtype of the entry's weights; in tiny models float32, unless the entry says
        otherwise.
        """
        wide = self.scale.tiny and entry.precision == "pure-bf16"
        return torch.float32 if wide else getattr(torch, weights_in(entry.precision))

    def computes_in(self, entry: Entry) -> torch.dtype:
        """Return the dtype of its products: autocast's, or that of its weights."""
        narrow = autocast_to(entry.precision)
        return getattr(torch, narrow) if narrow else self.dtype(entry)

    def reset(self, dtype: torch.dtype) -> None:
        """Restore the initial weights in `dtype`, without gradients."""
        with torch.no_grad():
            for name, parameter in self.distinct.items():
                parameter.grad = None
                if parameter.dtype == dtype:
                    parameter.copy_(self.initial[name])
                else:
                    parameter.data = self.initial[name].to(self.scale.device, dtype, copy=True)

    def restore_weights(self, prepared: PreparedEntry) -> list[nn.Parameter]:
        """Restore the initial weights as this entry has them, and return what it trains."""
        self.reset(self.dtype(prepared.entry))
        return [*self.distinct.values()]

    def forget_gradients(self, prepared: PreparedEntry) -> None:
        """Drop the gradients of all weights of the entry."""
        for parameter in self.distinct.values():
            parameter.grad = None

    def prepare(self, entry: Entry) -> PreparedEntry:
        """Return the entry with its model.  Raises Unavailable where the machine does not support
        it.
        """
        device = self.scale.device
        check_available(entry.attention, entry.backend, device, self.computes_in(entry))
        model = self._model(entry)
        prepared = PreparedEntry(entry, model, self.batch(entry), _patch(entry, model))
        prepared.more = tuple(self.batch(entry, number) for number in range(1, self.case.batches))
        if entry.checkpoint:
            switch_checkpointing_on(model, entry.checkpoint)
        if entry.compiled:
            traced_only = not device.startswith("cuda")
            several = self.case.batches > 1
            compile_model(
                model, entry.compiled, prepared.masks, traced_only=traced_only, lengths=several
            )
        return prepared

    def batch(self, entry: Entry, number: int = 0) -> Batch:
        """Return the entry's batch of that number on the device."""
        made = make_batch(self.case, self.words, entry.layout, entry.rows, number)
        return made.to(self.scale.device)

    def reference(self) -> PreTrainedModel:
        """Return the stock model with eager attention over the same weights, without dropout."""
        model = self._model(Entry("reference", attention="eager", precision="fp32"))
        return model.train(not self.case.dropout)

    def _model(self, entry: Entry) -> PreTrainedModel:
        config = make_config(self.case, self.scale.tiny, dict(entry.settings))
        how: dict[str, Any] = {"attn_implementation": entry.attention}
        if entry.experts:
            how["experts_implementation"] = entry.experts
        kind = self.stock(self.case) if not entry.variant else _variant(entry.variant, self.case)
        with torch.device(self.scale.device):
            try:
                model = kind._from_config(config, dtype=self.dtype(entry), **how)
            except (ImportError, ValueError) as error:
                raise Unavailable(" ".join(str(error).split())[:300]) from error
        share_parameters(model, self.parameters)
        model.train()
        return model


def make_config(
    case: Case, tiny: bool, settings: Mapping[str, Any] | None = None
) -> PreTrainedConfig:
    """Return the case's configuration without a cache; without dropout unless the case has it."""
    if tiny:
        names = {**_tiny_names(case.model), "use_cache": False}
        config = tiny_config(case.model, DROPOUT if case.dropout else 0.0, **names)
    else:
        config = CONFIG_MAPPING[case.model](**dict(case.config), use_cache=False)
        for name, value in config.to_dict().items() if not case.dropout else ():
            if "drop" in name and isinstance(value, float):
                setattr(config, name, 0.0)
    for name, value in (settings or {}).items():
        setattr(config, name, value)
    return config


def _tiny_names(model: str) -> dict[str, Any]:
    """Return `TINY` under the names of this model."""
    names = CONFIG_MAPPING[model].attribute_map
    return {names.get(name, name): value for name, value in TINY.items()}


def switch_checkpointing_on(model: PreTrainedModel, policy: str) -> None:
    """Checkpoint every layer: "full", "selective", or "offload" to host memory.

    Raises Unavailable where this transformers or this machine does not support it.
    """
    if policy == "offload":
        enable = getattr(model, "activation_checkpointing_enable", None)
        if (
            enable is None
            or "offload" not in inspect.signature(enable).parameters
            or model.device.type != "cuda"
        ):
            raise Unavailable("offloading needs a CUDA device, and a transformers that has it")
        return switch_on(model, {"use_reentrant": False}, offload=True)
    return switch_on(model, options_of(policy))


def _patch(entry: Entry, model: PreTrainedModel) -> tuple[Patch, ...]:
    patch = apply_liger(model) if entry.liger else ()
    return patch + (flash_of_torch() if entry.attention == "unpadding" else ())


def _variant(name: str, case: Case) -> type[PreTrainedModel]:
    return getattr(module_of(find_variant(name)), case.head)


def _kept(parameter: nn.Parameter, scale: Scale) -> torch.Tensor:
    kept = parameter.detach().to("cpu", torch.bfloat16, copy=True)
    return kept.pin_memory() if scale.device.startswith("cuda") else kept


def share_parameters(model: nn.Module, parameters: Mapping[str, nn.Parameter]) -> None:
    """Replace the model's parameters by those of the same names.

    Raises ValueError where names or shapes differ.
    """
    own = dict(model.named_parameters(remove_duplicate=False))
    if own.keys() != parameters.keys():
        other = sorted(own.keys() ^ parameters.keys())
        raise ValueError(f"{type(model).__name__} has other weights: {other[:4]}")
    for name in sorted(parameters):
        if own[name].shape != parameters[name].shape:
            raise ValueError(f"{type(model).__name__}: {name} is {tuple(own[name].shape)} here")
        place, _, last = name.rpartition(".")
        model.get_submodule(place)._parameters[last] = parameters[name]
