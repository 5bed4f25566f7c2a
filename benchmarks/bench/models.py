"""Builds the model and the batch of an entry, and makes its steps.

Axes: B rows, L tokens of a row.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedModel

from benchmarks.bench.cases import Case, Entry
from patchgen.runtime.attention import FASTEST, fastest_attention
from patchgen.runtime.checkpointing import options_of, switch_on
from patchgen.runtime.classes import module_of
from patchgen.runtime.tiny import tiny_config
from patchgen.runtime.variants import find_variant
from patchgen.syntax.errors import one_line
from patchgen.training.optimizers import build_optimizer
from patchgen.training.precision import autocast_to, products_in, weights_in

# Of a tiny model: enough words that logits take a share of the memory, as in large models.
TINY = {"vocab_size": 768, "num_hidden_layers": 2}
LABELLED = 0.15  # share of the words with a label, for a masked language model
FIRST_WORD = 5  # ids below are special in every model here
MASK = 4
NO_LABEL = -100
MOST_GRAPHS = 512  # of one function; by default torch stops compiling at the ninth, in silence


class Unavailable(Exception):
    """This machine does not support the entry."""


def class_of(case: Case, entry: Entry) -> type[PreTrainedModel]:
    """Return the class of an entry: of transformers, or of its variant."""
    home = module_of(find_variant(entry.variant)) if entry.variant else transformers
    kind: type[PreTrainedModel] = getattr(home, case.head)
    return kind


def make_config(case: Case) -> PreTrainedConfig:
    """Return the configuration of a case, without a cache and without dropout."""
    if case.tiny:
        names = CONFIG_MAPPING[case.model].attribute_map
        sizes = {names.get(name, name): value for name, value in TINY.items()}
        config: PreTrainedConfig = tiny_config(case.model, 0.0, **sizes, use_cache=False)
        return config
    config = CONFIG_MAPPING[case.model](**case.config, use_cache=False)
    for name, value in config.to_dict().items():
        if "drop" in name and isinstance(value, float):
            setattr(config, name, 0.0)
    return config


def check_available(entry: Entry, device: str) -> None:
    """Raise Unavailable for what this machine does not have."""
    on_gpu = device == "cuda"
    needs = {"liger_kernel": entry.liger, "bitsandbytes": entry.optimizer == "adamw-8bit"}
    needs["flash_attn"] = entry.attention == "flash_attention_2"
    for package, needed in needs.items():
        if needed and importlib.util.find_spec(package) is None:
            raise Unavailable(f"{package} is not installed")
        if needed and not on_gpu:
            raise Unavailable(f"{package} needs a CUDA device")
    if entry.precision in ("tf32", "amp-fp16") and not on_gpu:
        raise Unavailable(f"{entry.precision} needs a CUDA device")
    if entry.loss and not hasattr(F, entry.loss):
        raise Unavailable(f"torch {torch.__version__} has no {entry.loss}")


def build(case: Case, entry: Entry, device: str, weights: dict[str, Tensor] | None) -> Any:
    """Return the model of an entry in training mode, with these weights or with drawn ones."""
    check_available(entry, device)
    how: dict[str, Any] = {"attn_implementation": entry.attention}
    if entry.experts:
        how["experts_implementation"] = entry.experts
    narrow = not case.tiny or entry.precision != "pure-bf16"
    dtype = getattr(torch, weights_in(entry.precision)) if narrow else torch.float32
    if entry.attention == FASTEST:
        how["attn_implementation"] = _find_fastest(case, entry)
    torch.manual_seed(0)
    with torch.device(device):
        try:
            model = class_of(case, entry)._from_config(make_config(case), dtype=dtype, **how)
        except (ImportError, ValueError) as error:
            raise Unavailable(one_line(error, 300)) from error
    if weights is not None:
        model.load_state_dict(weights)
    model.train()
    if entry.liger:
        liger = importlib.import_module("liger_kernel.transformers.monkey_patch")
        if model.config.model_type not in liger.MODEL_TYPE_TO_APPLY_LIGER_FN:
            raise Unavailable(f"Liger-Kernel does not know {model.config.model_type}")
        liger._apply_liger_kernel_to_instance(model)
    if entry.checkpoint:
        switch_on(model, options_of(entry.checkpoint))
    _compile(model, entry, device)
    return model


def _find_fastest(case: Case, entry: Entry) -> str:
    """Return the best FlashAttention that is installed; raise Unavailable where there is none."""
    dtype = getattr(torch, products_in(entry.precision))
    attention = fastest_attention(class_of(case, entry), dtype)
    if attention is None:
        raise Unavailable("no FlashAttention is installed for this device and precision")
    return attention


def _compile(model: nn.Module, entry: Entry, device: str) -> None:
    if not entry.compiled:
        return
    config = torch._dynamo.config
    config.recompile_limit, config.accumulated_recompile_limit = MOST_GRAPHS, MOST_GRAPHS
    config.fail_on_recompile_limit_hit = True
    backend = "inductor" if device == "cuda" else "eager"  # a CPU only checks the graphs
    for module in layers_of(model) if entry.compiled == "layers" else [model]:
        module.compile(backend=backend, dynamic=False)


def layers_of(model: nn.Module) -> list[nn.Module]:
    """Return the layers of the longest list of modules of one class."""
    lists = [each for each in model.modules() if isinstance(each, nn.ModuleList) and len(each)]
    alike = [list(each) for each in lists if len({type(layer) for layer in each}) == 1]
    return max(alike, key=lambda layers: len(layers))


def make_batch(case: Case, entry: Entry, rows: int, words: int) -> dict[str, Tensor]:
    """Return the inputs of a step; the same text has the same words and labels in every layout."""
    lengths = case.texts(rows * entry.times)
    texts = [_text(length, words, case.task, seed) for seed, length in enumerate(lengths)]
    if entry.layout == "packed":
        packed = {
            "input_ids": torch.cat([ids_L for ids_L, _ in texts]),
            "position_ids": torch.cat([torch.arange(length) for length in lengths]),
            "labels": torch.cat([labels_L for _, labels_L in texts]),
        }
        return {name: values.view(-1, case.length) for name, values in packed.items()}
    ids_BL = torch.zeros(case.shape(entry, rows), dtype=torch.long)
    labels_BL = torch.full_like(ids_BL, NO_LABEL)
    mask_BL = torch.zeros_like(ids_BL)
    for row, (ids_L, labels_L) in enumerate(texts):
        length = len(ids_L)
        ids_BL[row, :length] = ids_L
        labels_BL[row, :length] = labels_L
        mask_BL[row, :length] = 1
    if case.task == "classify":
        labels_BL = torch.arange(len(lengths)) % 2
    return {"input_ids": ids_BL, "attention_mask": mask_BL, "labels": labels_BL}


def _text(length: int, words: int, task: str, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    ids_L = torch.randint(FIRST_WORD, words, (length,), generator=draw)
    labels_L = torch.full_like(ids_L, NO_LABEL)
    if task == "causal":
        labels_L[1:] = ids_L[1:]  # in a packed row the word before a text's first is another text's
    elif task == "masked":
        chosen = torch.randperm(length, generator=draw)[: max(1, int(LABELLED * length))]
        labels_L[chosen] = ids_L[chosen]
        ids_L[chosen] = MASK
    return ids_L, labels_L


class Steps:
    """The steps of an entry."""

    def __init__(self, model: Any, entry: Entry, batch: dict[str, Tensor], device: str) -> None:
        self.model, self.entry, self.device = model, entry, device
        self.batch = {name: values.to(device) for name, values in batch.items()}
        self.optimizer = build_optimizer(entry.optimizer, model.parameters())
        scaled = entry.precision == "amp-fp16" and device == "cuda"
        self.scaler = torch.amp.GradScaler("cuda") if scaled else None

    def step(self) -> Tensor:
        """Run forward, backward and update; return the loss without waiting."""
        loss = self.backward()
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def backward(self) -> Tensor:
        """Compute the mean loss of the batch and its gradients."""
        narrow = autocast_to(self.entry.precision)
        total = torch.zeros((), device=self.device)
        for part in self._parts():
            with torch.autocast(
                self.device, getattr(torch, narrow or "bfloat16"), enabled=bool(narrow)
            ):
                loss = self._loss(part) / self.entry.accumulate
            (loss if self.scaler is None else self.scaler.scale(loss)).backward()
            total += loss.detach().float()
        return total

    def _parts(self) -> Iterator[dict[str, Tensor]]:
        several = self.entry.accumulate
        split = {name: values.tensor_split(several) for name, values in self.batch.items()}
        yield from ({name: parts[at] for name, parts in split.items()} for at in range(several))

    def _loss(self, part: dict[str, Tensor]) -> Tensor:
        if not self.entry.loss:
            loss: Tensor = self.model(**part).loss
            return loss
        fused: Callable[..., Tensor] = getattr(F, self.entry.loss)
        inputs = {name: values for name, values in part.items() if name != "labels"}
        hidden = self.model.base_model(**inputs).last_hidden_state[:, :-1]
        weight = self.model.get_output_embeddings().weight
        return fused(hidden.flatten(0, 1), weight, part["labels"][:, 1:].flatten())

    def gradient_norm(self) -> float:
        """Return the norm of all gradients, without the scale of float16."""
        scale = self.scaler.get_scale() if self.scaler else 1.0
        norms = [p.grad.float().norm() for p in self.model.parameters() if p.grad is not None]
        return float(torch.stack(norms).norm()) / scale
