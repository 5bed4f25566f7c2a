"""Counts what variants gain over stock transformers and over Liger, at the model's own depth.

    python benchmarks/gains.py [NAME ...] [--quick]

Nothing is timed.  Models have the layers, widths and vocabulary of a checkpoint, in bfloat16, on
tensors without values: a step of training runs forward and backward, and each operation is counted,
with one layer and with two; each further layer takes what the second takes.
What depends on values that are not there, the routers of some mixtures, is counted on narrow models
of two layers with values.  The competitor is the model of transformers on SDPA, where it supports
that, with its own checkpointing where the variant checkpoints.

Rows are full, or padded: lengths rise evenly, and 44 of 100 places are padding.

memory   bytes that are alive after the forward pass, without weights
FLOPs    of products, forward and backward, with those of custom operators
kernels  operations that write a tensor: what a GPU launches where nothing is compiled

`rms_norm` and SDPA count as on CUDA, where each is a kernel under any mask.  Liger is counted
by what its kernels keep and compute, as its source says.

Writes docs/gains.md and docs/gains/gains.svg; `--quick` runs tiny models and writes nothing.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from transformers import PreTrainedModel
from transformers.utils import logging

import patchgen.runtime  # noqa: F401  (registers "varlen")
from benchmarks.charts.bars import Bar, bars
from patchgen.runtime.checkpointing import switch_on
from patchgen.verifying.observe.recorder import count_flops, find_python_body
from patchgen.verifying.variants import Variant, find_variants

PAGE, PLOT = REPOSITORY / "docs" / "gains.md", REPOSITORY / "docs" / "gains" / "gains.svg"
APART = {torch.ops.aten.matmul, torch.ops.aten.linear}
LARGEST = 400_000_000  # parameters with values
GAIN = 0.95  # of the competitor's, or less

# Of the field that says how many layers there are, whatever a configuration calls it.
LAYERS = (
    "num_hidden_layers",
    "n_layer",
    "n_layers",
    "num_layers",
    "encoder_layers",
    "decoder_layers",
)
# A checkpoint of each model, where the defaults of its configuration are not one.
CHECKPOINTS: dict[str, dict[str, Any]] = {
    "llama": {  # Llama 3.2 1B
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    },
    "qwen3": {  # 0.6B
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
    },
    "gemma2": {"num_hidden_layers": 26},  # 2B
    "qwen3_moe": {  # 30B-A3B
        "hidden_size": 2048,
        "moe_intermediate_size": 768,
        "num_hidden_layers": 48,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "num_experts": 128,
        "num_experts_per_tok": 8,
    },
    "bloom": {"hidden_size": 1024, "n_layer": 24, "n_head": 16, "vocab_size": 250880},  # 560M
    "megatron_bert": {},
    "albert": {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12},  # base
    "deberta_v2": {  # v3 base
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_buckets": 256,
        "share_att_key": True,
        "max_relative_positions": -1,
    },
}
# Mixtures that route by values: two narrow layers.
NARROW: dict[str, dict[str, Any]] = {
    "jetmoe": {
        "hidden_size": 1024,
        "intermediate_size": 1408,
        "num_key_value_heads": 8,
        "kv_channels": 64,
    },
    "dbrx": {
        "d_model": 768,
        "n_heads": 12,
        "n_layers": 2,
        "attn_config": {"rope_theta": 500000.0, "kv_n_heads": 4, "clip_qkv": 8},
        "ffn_config": {
            "hidden_size": 768,
            "ffn_hidden_size": 1344,
            "moe_num_experts": 8,
            "moe_top_k": 2,
        },
    },
    "llama4": {
        "hidden_size": 768,
        "intermediate_size": 1536,
        "intermediate_size_mlp": 3072,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "vocab_size": 32000,
        "moe_layers": [0, 1],
        "no_rope_layers": [1, 0],
        "layer_types": ["chunked_attention", "full_attention"],
    },
    "longcat_flash": {
        "hidden_size": 768,
        "ffn_hidden_size": 1536,
        "expert_ffn_hidden_size": 384,
        "n_routed_experts": 16,
        "zero_expert_num": 8,
        "moe_topk": 4,
        "num_attention_heads": 12,
        "num_key_value_heads": 12,
        "q_lora_rank": 384,
        "kv_lora_rank": 128,
        "qk_nope_head_dim": 64,
        "qk_rope_head_dim": 32,
        "qk_head_dim": 96,
        "head_dim": 32,
        "v_head_dim": 64,
        "vocab_size": 32000,
        "max_position_embeddings": 2048,
    },
    "qwen3_moe": {
        "hidden_size": 768,
        "moe_intermediate_size": 384,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "num_experts": 16,
        "num_experts_per_tok": 4,
        "vocab_size": 32000,
    },
    "step3p7": {
        "text_config": {
            "hidden_size": 768,
            "intermediate_size": 1536,
            "moe_intermediate_size": 384,
            "share_expert_dim": 384,
            "num_hidden_layers": 2,
            "mlp_layer_types": ["sparse", "sparse"],
            "num_attention_heads": 12,
            "num_key_value_heads": 4,
            "head_dim": 64,
            "n_routed_experts": 16,
            "sliding_window": 32,
            "num_experts_per_tok": 4,
            "vocab_size": 32000,
        },
        "vision_config": {
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
        },
    },
}

TINY = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "moe_intermediate_size": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 99,
    "n_embd": 32,
    "n_head": 4,
    "d_model": 32,
    "ffn_dim": 48,
    "attention_heads": 4,
    "embedding_size": 16,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "num_local_experts": 4,
    "n_heads": 4,
    "attn_config": {"rope_theta": 500000.0, "kv_n_heads": 2, "clip_qkv": 8},
    "ffn_config": {
        "hidden_size": 32,
        "ffn_hidden_size": 16,
        "moe_num_experts": 4,
        "moe_top_k": 2,
    },
}


# Above the table of docs/gains.md.
HEAD = """\
Written by `python benchmarks/gains.py`, which counts, and times nothing. It compares a step of
training of each variant with one of the *competitor*: transformers' own model with its best
options, and Liger's kernels where they are made for the model. Models have the layers, widths and
vocabulary of a checkpoint, in bfloat16; rows are full, or 44 of 100 places are padding. All figures
are ratios: 0.50 is half of what the competitor takes. A gain of 5 % and more is bold.

- *memory*: the bytes that are alive after the forward pass, without weights.
- *FLOPs*: the arithmetic of matrix products, in the forward and the backward pass.
- *kernels*: operations that write a tensor; a GPU launches each where nothing is compiled.

The column *competitor* names the attention of transformers' model. *Narrow* are mixtures that route
by values, and XLNet: two layers of a smaller width, with values. `rms_norm` and SDPA count as on
CUDA, where each is one kernel. Liger's kernels, which `llama_fast` and `qwen3_fast` use too, are
counted by what its source says: it is not installed here.
"""


@dataclass(frozen=True, slots=True)
class Step:
    """What a step of training takes."""

    kept: int
    flops: float
    kernels: int


@dataclass(frozen=True, slots=True)
class Row:
    """A variant beside a competitor: the layers, the places and the share of padding."""

    name: str
    against: str
    layers: int
    places: str
    padding: float
    variant: Step
    competitor: Step

    @property
    def ratios(self) -> tuple[float, float, float]:
        """Memory, FLOPs and kernels, in units of the competitor's."""
        mine, other = self.variant, self.competitor
        return mine.kept / other.kept, mine.flops / other.flops, mine.kernels / other.kernels

    @property
    def gains(self) -> bool:
        return min(self.ratios) <= GAIN


STOCK: dict[tuple[Any, ...], tuple[Step, str]] = {}  # the same for all variants of a model


class NotCounted(Exception):
    """A variant that this script has no step for, with the reason."""


class Counting(TorchDispatchMode):
    """Runs what has values on values and the rest on shapes, and counts both."""

    def __init__(self, fake: FakeTensorMode | None) -> None:
        super().__init__()
        self.fake, self.flops, self.kernels = fake, 0, 0
        self.made: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if (body := find_python_body(func)) is not None:
            with self:
                return body(*args, **given)
        if func.overloadpacket in APART:  # a body runs below where torch takes them apart
            with self:
                return func.decompose(*args, **given)
        inputs = [each for each in tree_leaves((args, given)) if isinstance(each, Tensor)]
        fake = any(isinstance(each, FakeTensor) for each in inputs)
        if not inputs and self.fake is not None:
            with self.fake:
                made = func(*args, **given)
                fake = isinstance(made, Tensor) and made.is_floating_point()
        with self.fake if fake and self.fake is not None else nullcontext():
            out = func(*args, **given)
        self.flops += count_flops(func, args, given, out)
        results = func._schema.returns
        view = all(each.alias_info and not each.alias_info.is_write for each in results)
        self.kernels += not view and "empty" not in func.__name__
        for each in tree_leaves(out):
            if isinstance(each, Tensor):
                storage = each.untyped_storage()
                self.made[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        return out

    def alive(self, model: PreTrainedModel) -> int:
        """The bytes that are held, without those of parameters."""
        gc.collect()
        own = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
        own |= {buffer.untyped_storage()._cdata for buffer in model.buffers()}
        held = (
            size for key, (ref, size) in self.made.items() if key not in own and not ref.expired()
        )
        return sum(held)


class Kernel(torch.autograd.Function):
    """One kernel: an output like its first input, and which inputs it keeps; without values."""

    @staticmethod
    def forward(ctx: Any, kept: int, *inputs: Any) -> Any:
        rows = inputs[0].new_empty(inputs[0].shape[:-1], dtype=torch.float32)
        ctx.save_for_backward(*inputs[:kept], rows)
        ctx.inputs = [each if each is None else (each.shape, each.dtype) for each in inputs]
        return torch.zeros_like(inputs[0])

    @staticmethod
    def backward(ctx: Any, slope: Any) -> Any:  # type: ignore[override]
        grads = [each and slope.new_empty(each[0], dtype=each[1]) for each in ctx.inputs]
        return None, *(each if number else slope.clone() for number, each in enumerate(grads))


class Attention(torch.autograd.Function):
    """SDPA as CUDA's kernels have it: with a mask that takes a gradient, and groups of heads."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, causal: bool
    ) -> Any:
        heads = query.shape[1] // key.shape[1]
        ctx.heads, ctx.causal = heads, causal
        wide = (each.repeat_interleave(heads, 1) if heads > 1 else each for each in (key, value))
        flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        out, log_sums = flash(query, *wide, 0.0, causal)
        ctx.save_for_backward(query, key, value, mask, out, log_sums)
        return out

    @staticmethod
    def backward(ctx: Any, slope: Any) -> Any:  # type: ignore[override]
        query, key, value, mask, out, log_sums = ctx.saved_tensors
        wide = (each.repeat_interleave(ctx.heads, 1) for each in (key, value))
        flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        of_query = flash(slope, query, *wide, out, log_sums, 0.0, ctx.causal)[0]
        of_mask = torch.zeros_like(mask) if ctx.needs_input_grad[3] else None
        return of_query, torch.zeros_like(key), torch.zeros_like(value), of_mask, None


class LigerLoss(torch.autograd.Function):
    """Both gradients are computed in the forward pass, and kept: one chunk of logits at a time."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor) -> Any:  # type: ignore[override]
        flat, of_weight, of_states = states.flatten(0, -2), torch.zeros_like(weight), []
        chunks = -(-weight.shape[0] // weight.shape[1])
        for rows in flat.split(-(-len(flat) // chunks)):
            slope = torch.zeros_like(rows @ weight.T)
            of_states.append(slope @ weight)
            of_weight += slope.T @ rows
        ctx.save_for_backward(torch.cat(of_states).view(states.shape), of_weight)
        return flat.new_zeros(())

    @staticmethod
    def backward(ctx: Any, slope: Any) -> Any:  # type: ignore[override]
        return tuple(each * slope for each in ctx.saved_tensors)


def use_kernels(model: PreTrainedModel) -> PreTrainedModel:
    """Let norms and gated products of a Llama-like model be Liger's kernels."""
    for module in model.modules():
        name = type(module).__name__
        if name.endswith("RMSNorm"):
            module.forward = lambda x, own=module: Kernel.apply(1, x, own.weight)
        elif name.endswith("MLP"):
            module.forward = lambda x, own=module: own.down_proj(
                Kernel.apply(2, own.gate_proj(x), own.up_proj(x))
            )
    return model


def use_liger(model: PreTrainedModel) -> PreTrainedModel:
    """Let a Llama-like model run as Liger's patches let it run."""
    use_kernels(model)
    head: Any = model.lm_head
    head.forward = lambda states: states
    model.loss_function = lambda logits, *_, **__: LigerLoss.apply(logits, head.weight)
    return model


@contextmanager
def as_on_cuda() -> Iterator[None]:
    """`rms_norm` is one kernel, and nothing is compiled."""
    plain, attention = functional.rms_norm, functional.scaled_dot_product_attention
    functional.rms_norm = lambda x, shape, weight=None, eps=None: Kernel.apply(1, x, weight)
    functional.scaled_dot_product_attention = (
        lambda query, key, value, attn_mask=None, is_causal=False, **more: (
            Attention.apply(query, key, value, attn_mask, is_causal)
            if query.shape[-1] == value.shape[-1]
            else attention(query, key, value, attn_mask, is_causal=is_causal, **more)
        )
    )
    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        functional.rms_norm, functional.scaled_dot_product_attention = plain, attention


def classes(variant: Variant) -> tuple[type[PreTrainedModel], type[PreTrainedModel]]:
    """The variant's class of a language model, and transformers' of the same name."""
    module, parent = map(importlib.import_module, (variant.module, variant.parent))
    wanted = ("ForMaskedLM", "ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
    for head in sorted(
        variant.heads, key=lambda name: "mlm" in variant.name and "MaskedLM" not in name
    ):
        ours, theirs = getattr(module, head, None), getattr(parent, head, None)
        if head.endswith(wanted) and ours is not None and theirs is not None:
            return ours, theirs
    raise NotCounted("it has no language model of its parent's name")


def configuration(kind: type[PreTrainedModel], changes: dict[str, Any]) -> Any:
    names = set(inspect.signature(kind.config_class).parameters) | set(
        kind.config_class().to_dict()
    )
    config = kind.config_class(**{name: each for name, each in changes.items() if name in names})
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = 0
    return config


def make(kind: type[PreTrainedModel], variant: Variant, config: Any, ours: bool) -> tuple[Any, str]:
    """A model in training, and what is switched on in it."""
    lengths = ours and ("packed" in variant.name or "fast" in variant.name)
    attention = "varlen" if lengths else "sdpa" if kind._supports_sdpa else "eager"
    wide = variant.name == "bert_norm" or "xlnet" in variant.name  # which mixes dtypes
    dtype = torch.float32 if wide else torch.bfloat16
    model = kind._from_config(config, attn_implementation=attention, dtype=dtype).train()
    how = [attention]
    if "checkpoint" in variant.checked_parts and kind.supports_gradient_checkpointing:
        switch_on(model)
        how.append("checkpointing")
    return model, ", ".join(how)


def batch(rows: int, length: int, padded: bool, masked: bool) -> dict[str, Tensor]:
    """Words, in rows that are full or padded."""
    draw = torch.Generator().manual_seed(0)
    lengths = [length * (row + 1) // rows if padded else length for row in range(rows)]
    mask = torch.arange(length) < torch.tensor(lengths)[:, None]
    ids = torch.randint(5, 90, (rows, length), generator=draw)
    labelled = mask & (torch.rand(ids.shape, generator=draw) < (0.15 if masked else 1.1))
    labels = ids.masked_fill(~labelled, -100)
    if not padded:
        return {"input_ids": ids, "labels": labels}
    return {"input_ids": ids, "labels": labels, "attention_mask": mask.long()}


def count(
    make_model: Callable[[], Any],
    given: dict[str, Tensor],
    values: bool,
    auto: bool,
    module: Any = None,
) -> Step:
    """A step of the model that is made."""
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    replaced: dict[str, Any] = {}
    if module is not None and not values:
        replaced["Tensor"] = (
            FakeTensor  # to the part `loss`, a weight without values is a plain one
        )
        # Tensors without values have no subclass, and no step reads the logits that it defers.
        if hasattr(module, "DeferredLogits"):
            replaced["defer"] = lambda compute, shape, like, *more: like.new_empty(())
    with nullcontext() if values else fake:
        model = make_model()
    cache = (
        {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}
    )
    narrow = torch.autocast("cpu", torch.bfloat16) if auto else nullcontext()
    with as_on_cuda(), Counting(None if values else fake) as counting:
        with narrow, patch.dict(vars(module) if module else {}, replaced):
            loss = model(**given, **cache).loss
        kept = counting.alive(model)
        loss.backward()
    return Step(kept, counting.flops, counting.kernels)


def count_variant(variant: Variant, quick: bool) -> list[Row]:
    """The variant beside stock and beside Liger; with padding too if the variant changes that."""
    ours, theirs = classes(variant)
    kind = variant.parent.split(".")[-2]
    masked, parts = ours.__name__.endswith("MaskedLM"), variant.checked_parts
    values, auto = "grouped" in parts or kind == "xlnet", variant.name == "bert_norm"
    text = 32 if quick else 64 if values else 512 if masked or "bert" in kind else 1024
    shape = (4, text) if values or quick else (8, text)
    changes = TINY if quick else NARROW.get(kind, {}) if values else CHECKPOINTS.get(kind, {})
    depth, rows = 2, []
    if values and not quick:
        with torch.device("meta"):
            small = ours(configuration(ours, dict.fromkeys(LAYERS, 2) | changes))
        if (size := sum(each.numel() for each in small.parameters())) > LARGEST:
            raise NotCounted(f"{size:,} parameters at two layers")
    if not values and not quick:
        config = configuration(ours, changes)
        depth = next(getattr(config, name) for name in LAYERS if hasattr(config, name))
        shape = (8, min(text, getattr(config, "max_position_embeddings", None) or text))
    for padded in (False, True) if {"flash", "fast"} & set(parts) or masked else (False,):
        share = (shape[0] - 1) / (2 * shape[0]) if padded else 0.0

        def step(
            build: Callable[..., Any], kinds: Any, own: bool, padded: bool = padded
        ) -> tuple[Step, str]:
            given = batch(*shape, padded, masked)
            how: list[str] = []

            def made(layers: int) -> Any:
                few = dict.fromkeys(LAYERS, layers)
                model, said = make(kinds, variant, configuration(kinds, changes | few), own)
                how.append(said)
                return build(model)

            # Gemma 2 has two kinds of layers, one after the other.
            some = 2 if kind == "gemma2" or depth == 2 else 1
            file = sys.modules[kinds.__module__] if own else None
            first = count(lambda: made(some), given, values, auto, file)
            if depth == some:
                return first, how[0]
            second = count(lambda: made(2 * some), given, values, auto, file)
            more = depth // some - 1
            pairs = zip(astuple(first), astuple(second), strict=True)
            return Step(*(one + more * (two - one) for one, two in pairs)), how[0]

        try:
            mine, _ = step(use_kernels if "kernels" in parts else lambda model: model, ours, True)
            key = theirs, padded, "checkpoint" in parts, auto
            if key not in STOCK:
                STOCK[key] = step(lambda model: model, theirs, False)
            other, said = STOCK[key]
            said += (", autocast" if auto else "") + (", narrow" if values else "")
            more = depth, f"{shape[0]} x {shape[1]}", share, mine
            rows.append(Row(variant.name, said, *more, other))
            if kind in ("llama", "qwen3", "gemma2"):
                key = theirs, padded, "Liger", auto
                if key not in STOCK:
                    STOCK[key] = step(use_liger, theirs, False)
                rows.append(Row(variant.name, "Liger", *more, STOCK[key][0]))
        except (RuntimeError, TypeError, NotImplementedError, ValueError) as error:
            # One model that does not run must not cost what was counted of the others.
            raise NotCounted(f"{type(error).__name__}: {str(error)[:200]}") from error
    return rows


def page(rows: list[Row], left_out: list[tuple[str, str]]) -> str:
    """docs/gains.md."""
    lines = [
        "# What a variant gains",
        "",
        *HEAD.splitlines(),
        "",
        "![Memory and FLOPs of each variant, relative to its competitor](gains/gains.svg)",
        "",
        "| variant | competitor | layers | rows | padding | memory | FLOPs | kernels |",
        "|---|---|---:|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        figures = " | ".join(
            f"**{each:.2f}**" if each <= GAIN else f"{each:.2f}" for each in row.ratios
        )
        what = f"{row.against} | {row.layers} | {row.places} | {row.padding:.0%}"
        lines.append(f"| `{row.name}` | {what} | {figures} |")
    if left_out:
        lines += ["", "Not counted:", "", *(f"- `{name}`: {why}" for name, why in left_out)]
    return "\n".join(lines) + "\n"


def picture(rows: list[Row]) -> str:
    """Two bars a variant: what it keeps and what it computes, over its competitor's."""
    drawn = []
    for row in sorted((each for each in rows if not each.padding), key=lambda row: row.ratios[0]):
        for number, value in enumerate(row.ratios[:2]):
            name = "" if number else f"{row.name} / {row.against}"
            drawn.append(Bar(name, (value,), f"{value:.2f}", None, 1.0, number))
    return bars(
        "Each variant beside the best that transformers has, full rows",
        drawn,
        across="in units of the competitor's (lower is better)",
        names=("kept for backward", "FLOPs"),
    )


def main() -> None:
    """Count, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="tiny models; writes nothing")
    asked = parser.parse_args()
    logging.set_verbosity_error()
    rows, left_out = [], []
    for variant in find_variants(REPOSITORY, asked.names):
        try:
            counted = count_variant(variant, asked.quick)
        except NotCounted as why:
            left_out.append((variant.name, str(why)))
            continue
        rows += counted
        for row in counted:
            memory, flops, kernels = row.ratios
            print(
                f"{row.name} beside {row.against}, {row.layers} layers, {row.places}, "
                f"{row.padding:.0%} padding: {memory:.2f} of the memory, {flops:.2f} of the FLOPs, "
                f"{kernels:.2f} of the kernels",
                flush=True,
            )
    for name, why in left_out:
        print(f"{name}: not counted: {why}")
    if not asked.quick and not asked.names:
        PAGE.write_text(page(rows, left_out), encoding="utf-8")
        PLOT.write_text(picture(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
