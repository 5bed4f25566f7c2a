"""The models of one case, all over the same weights.

Every contestant's model holds the same parameter objects: what is resident is one model, whoever is on, and
contestants can take turns.  `reset` sets the weights back to where all began: values that bfloat16 holds exactly, so
that a reference in float32 begins from the same.
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
    forced,
)
from patchgen.training.bench.compiling import Masks, compile_model
from patchgen.training.bench.entry import Entry
from patchgen.training.bench.fused import FusedWeight, find_fused_weights, names_of_parts
from patchgen.training.bench.texts import Batch, batch_of
from patchgen.training.patching import Patch, patched
from patchgen.training.precision import autocast_to, weights_in
from patchgen.verify.configs.tiny import tiny_config

# Of a tiny model: wider than the words of its head are many, as large models are not; logits must weigh something.
TINY = {"vocab_size": 768, "num_hidden_layers": 2}
DROPOUT = 0.1  # of tiny models in cases that have it


@dataclass(frozen=True, slots=True)
class Scale:
    """Where and how large: `tiny` models run in float32 on a CPU, to be checked and not to be timed."""

    device: str
    tiny: bool = False


@dataclass(slots=True)
class PreparedEntry:
    """A contestant that is ready: its model, its batch, and what was seen of it."""

    entry: Entry
    model: PreTrainedModel
    batch: Batch
    patches: tuple[Patch, ...]
    masks: Masks = field(default_factory=list)
    fused_weights: tuple[FusedWeight, ...] = ()  # of its fused layers
    more: tuple[Batch, ...] = ()  # batches that take turns with the first

    def on(self) -> ExitStack:
        """A context in which it runs as it is meant to."""
        stack = ExitStack()
        stack.enter_context(patched(*self.patches))
        stack.enter_context(forced(self.entry.backend))
        return stack


class CaseSetup:
    """One case's weights and what is built over them."""

    def __init__(self, case: Case, scale: Scale) -> None:
        self.case, self.scale = case, scale
        torch.manual_seed(0)
        with torch.device(scale.device):
            stock = self.stock(case)._from_config(
                config_of(case, scale.tiny), attn_implementation="eager"
            )
        self.parameters = dict(stock.named_parameters(remove_duplicate=False))
        distinct = dict(stock.named_parameters())
        self.initial = {name: _kept(parameter, scale) for name, parameter in distinct.items()}
        self.distinct = distinct
        self.words: int = stock.config.get_text_config().vocab_size

    @staticmethod
    def stock(case: Case) -> type[PreTrainedModel]:
        """The case's class in transformers."""
        return getattr(transformers, case.head)

    def dtype(self, entry: Entry) -> torch.dtype:
        """Of the contestant's weights; float32 in a tiny model whose contestant names nothing else."""
        wide = self.scale.tiny and entry.precision == "pure-bf16"
        return torch.float32 if wide else getattr(torch, weights_in(entry.precision))

    def computes_in(self, entry: Entry) -> torch.dtype:
        """The dtype of its products: autocast's, or that of its weights."""
        narrow = autocast_to(entry.precision)
        return getattr(torch, narrow) if narrow else self.dtype(entry)

    def reset(self, dtype: torch.dtype) -> None:
        """Weights as they were at first, in `dtype`; no gradients."""
        with torch.no_grad():
            for name, parameter in self.distinct.items():
                parameter.grad = None
                if parameter.dtype == dtype:
                    parameter.copy_(self.initial[name])
                else:
                    parameter.data = self.initial[name].to(self.scale.device, dtype, copy=True)

    def begin(self, prepared: PreparedEntry) -> list[nn.Parameter]:
        """Weights as they were at first, as this contestant has them; those that it trains."""
        self.reset(self.dtype(prepared.entry))
        for whole in prepared.fused_weights:
            whole.fill()
        inside = {id(part) for whole in prepared.fused_weights for part in whole.parts}
        shared = [parameter for parameter in self.distinct.values() if id(parameter) not in inside]
        return [*shared, *(whole.parameter for whole in prepared.fused_weights)]

    def forget_gradients(self, prepared: PreparedEntry) -> None:
        """Of all weights that the contestant has."""
        for parameter in (
            *self.distinct.values(),
            *(whole.parameter for whole in prepared.fused_weights),
        ):
            parameter.grad = None

    def enter(self, entry: Entry) -> PreparedEntry:
        """The contestant with its model.  Raises Unavailable where it cannot be had."""
        device = self.scale.device
        check_available(entry.attention, entry.backend, device, self.computes_in(entry))
        model = self._model(entry)
        prepared = PreparedEntry(entry, model, self.batch(entry), _patch(entry, model))
        prepared.more = tuple(self.batch(entry, number) for number in range(1, self.case.batches))
        prepared.fused_weights = tuple(find_fused_weights(model, self.parameters).values())
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
        """The contestant's batch of that number on the device."""
        made = batch_of(self.case, self.words, entry.layout, entry.rows, number)
        return made.to(self.scale.device)

    def reference(self) -> PreTrainedModel:
        """The stock model under eager attention over the same weights, without dropout."""
        model = self._model(Entry("reference", attention="eager", precision="fp32"))
        return model.train(not self.case.dropout)

    def _model(self, entry: Entry) -> PreTrainedModel:
        config = config_of(self.case, self.scale.tiny, dict(entry.settings))
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


def config_of(
    case: Case, tiny: bool, settings: Mapping[str, Any] | None = None
) -> PreTrainedConfig:
    """The configuration of the case, without a cache, and without dropout but where the case has it."""
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
    """`TINY` by the names of this model."""
    names = CONFIG_MAPPING[model].attribute_map
    return {names.get(name, name): value for name, value in TINY.items()}


def switch_checkpointing_on(model: PreTrainedModel, policy: str) -> None:
    """Of every layer: "full", "selective", or "offload": full, what is kept held by the host.

    Raises Unavailable where this transformers or this machine cannot.
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
    """Put `parameters` in the places of the model's own, by name; those of fused layers stay its own.

    Raises ValueError where names or shapes differ: such a model would be trained from other weights.
    """
    own = dict(model.named_parameters(remove_duplicate=False))
    fused_weights = find_fused_weights(model, parameters)
    given = parameters.keys() - names_of_parts(fused_weights, parameters)
    if own.keys() - fused_weights.keys() != given:
        other = sorted((own.keys() - fused_weights.keys()) ^ given)
        raise ValueError(f"{type(model).__name__} has other weights: {other[:4]}")
    for name in sorted(given):
        if own[name].shape != parameters[name].shape:
            raise ValueError(f"{type(model).__name__}: {name} is {tuple(own[name].shape)} here")
        place, _, last = name.rpartition(".")
        model.get_submodule(place)._parameters[last] = parameters[name]
