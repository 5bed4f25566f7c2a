"""Measures on a CPU what each variant gains over stock transformers with its best options.

    python benchmarks/gains.py [NAME ...] [--quick] [--rounds N] [--minutes M]

Models have their real widths and few layers, with random weights and the dropout of their
configuration.  The competitor is the same model of transformers, on SDPA where it supports that,
with its own checkpointing where the variant checkpoints.  Both get the same batch of texts of
several lengths, padded to the longest; packed variants get them concatenated, without padding.
Both take turns in one process; a ratio is that of one round.

time        seconds of a step (forward and backward), relative to the competitor: median, quartiles
memory      bytes that autograd saves for the backward pass, without weights
FLOPs       of products, forward and backward, with those of custom operators
operations  calls that reach torch's dispatcher

Writes docs/gains.md and docs/gains/gains.svg; `--quick` writes nothing and runs tiny models.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import inspect
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from transformers import PreTrainedModel
from transformers.utils import logging

from benchmarks.charts.bars import Bar, bars
from benchmarks.quartiles import Quartiles, quartiles
from patchgen.runtime.checkpointing import switch_on
from patchgen.verify.observe.evidence import count_saved_bytes
from patchgen.verify.observe.pace import count_fast_path
from patchgen.verify.variants import Variant, find_variants

PAGE, PLOT = REPOSITORY / "docs" / "gains.md", REPOSITORY / "docs" / "gains" / "gains.svg"
LARGEST = 400_000_000  # parameters: more do not fit a machine that others use too

# Of the field that says how many layers there are, whatever a configuration calls it.
LAYERS = (
    "num_hidden_layers",
    "n_layer",
    "n_layers",
    "num_layers",
    "encoder_layers",
    "decoder_layers",
)
# Real widths, where a configuration's defaults are not those of a base model.
WIDTHS: dict[str, dict[str, Any]] = {
    # The defaults of these two are those of the largest checkpoint; here are the base ones.
    "albert": {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12},
    "deberta_v2": {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_attention_heads": 12,
        "vocab_size": 32000,
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_buckets": 256,
        "share_att_key": True,
        "max_relative_positions": -1,
    },
    "jetmoe": {
        "hidden_size": 1024,
        "intermediate_size": 1408,
        "num_key_value_heads": 8,
        "kv_channels": 64,
    },
    # Mixtures are narrowed: their checkpoints fit no machine of this kind.
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
    "nllb_moe": {
        "num_experts": 8,
        "encoder_ffn_dim": 2048,
        "decoder_ffn_dim": 2048,
        "vocab_size": 32000,
    },
    "llama": {
        "hidden_size": 1024,
        "intermediate_size": 2816,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "vocab_size": 32000,
        "num_hidden_layers": 3,
    },
    "gemma2": {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "vocab_size": 32000,
    },
    "qwen3": {
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "vocab_size": 32000,
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
    "mixtral": {
        "hidden_size": 768,
        "intermediate_size": 1536,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
        "vocab_size": 32000,
    },
    "bloom": {"hidden_size": 1024, "n_head": 16, "vocab_size": 32000},
    "xglm": {"d_model": 1024, "ffn_dim": 4096, "attention_heads": 16, "vocab_size": 32000},
    "megatron_bert": {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16},
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
Written by `python benchmarks/gains.py`, on two cores of a CPU. It compares a training step of each
variant with one of the *competitor*: transformers' own model with its best options. All figures are
ratios: 0.50 is half of what the competitor takes, and 1.00 is the same.

- *time*: how long a step takes; the median of all rounds, and the quartiles in brackets.
- *memory*: the bytes that autograd saves for the backward pass.
- *FLOPs*: the arithmetic of matrix products, in the forward and the backward pass.
- *operations*: how many operations torch runs.

The column *competitor* names the attention of transformers' model. A variant in italics gains
nothing here. It may gain on a GPU, or in other ways: the docstring of its modular file says how.
"""


@dataclass(frozen=True, slots=True)
class Side:
    """What one of the two models does in a step."""

    seconds: tuple[float, ...]
    kept: int
    flops: float
    operations: int


@dataclass(frozen=True, slots=True)
class Row:
    """A variant beside its competitor."""

    name: str
    parts: tuple[str, ...]
    against: str
    variant: Side
    competitor: Side

    @property
    def time(self) -> Quartiles:
        """Of the ratios of each turn."""
        pairs = zip(self.variant.seconds, self.competitor.seconds, strict=True)
        return quartiles([ours / theirs for ours, theirs in pairs])

    @property
    def saved_allocations(self) -> float:
        return self.variant.kept / max(1, self.competitor.kept)

    @property
    def gains(self) -> bool:
        """Less time, by more than the spread, or at least a twentieth less memory or work."""
        less_work = self.variant.flops < 0.95 * self.competitor.flops
        return self.time.high < 1 or self.saved_allocations < 0.95 or less_work


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument(
        "--quick", action="store_true", help="tiny models, two rounds; writes nothing"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        metavar="N",
        help="rounds of each pair (default %(default)s)",
    )
    parser.add_argument(
        "--minutes", type=float, default=14, metavar="M", help="begin no pair later than this"
    )
    asked = parser.parse_args()
    logging.set_verbosity_error()
    torch.set_num_threads(min(2, torch.get_num_threads()) if asked.quick else 2)

    begun, rows, left_out = time.monotonic(), [], []
    for variant in find_variants(REPOSITORY, asked.names):
        if time.monotonic() - begun > 60 * asked.minutes:
            left_out.append((variant.name, "no time was left"))
            continue
        try:
            row = measure_step(variant, asked.quick, 2 if asked.quick else asked.rounds)
        except NotMeasured as why:
            left_out.append((variant.name, str(why)))
            continue
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            # One model that does not run must not cost what was measured of the others.
            left_out.append((variant.name, f"{type(error).__name__}: {error}"))
            continue
        rows.append(row)
        print(in_words(row), flush=True)
    for name, why in left_out:
        print(f"{name}: not measured: {why}")
    if not asked.quick and not asked.names:
        PLOT.parent.mkdir(exist_ok=True)
        PAGE.write_text(page(rows, left_out), encoding="utf-8")
        PLOT.write_text(picture(rows), encoding="utf-8")


class NotMeasured(Exception):
    """A variant that this script has no step for, with the reason."""


def measure_step(variant: Variant, quick: bool, rounds: int) -> Row:
    """The variant's step beside its competitor's."""
    ours, theirs = classes(variant)
    given = batch(variant, quick)
    competitor, how = made(theirs, ours, variant, quick)
    own, _ = made(ours, ours, variant, quick)
    steps = [step_of(model, given) for model in (own, competitor)]
    counted = [counts(step, model) for step, model in zip(steps, (own, competitor), strict=True)]
    seconds: list[list[float]] = [[], []]
    for number in range(rounds):
        # Whoever goes first finds the other's data in the caches.
        for side in (0, 1) if number % 2 else (1, 0):
            seconds[side].append(time_runs(steps[side]))
    sides = [Side(tuple(took), *count) for took, count in zip(seconds, counted, strict=True)]
    del own, competitor, steps
    gc.collect()
    return Row(variant.name, variant.checked_parts, how, *sides)


def classes(variant: Variant) -> tuple[type[PreTrainedModel], type[PreTrainedModel]]:
    """The variant's class of a language model, and transformers' of the same name."""
    module, parent = (
        importlib.import_module(variant.module),
        importlib.import_module(variant.parent),
    )
    wanted = ("ForMaskedLM", "ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
    for head in sorted(
        variant.heads, key=lambda name: "mlm" in variant.name and "MaskedLM" not in name
    ):
        ours, theirs = getattr(module, head, None), getattr(parent, head, None)
        if head.endswith(wanted) and ours is not None and theirs is not None:
            return ours, theirs
    raise NotMeasured("it has no language model of its parent's name")


def made(
    kind: type[PreTrainedModel], variant_class: type[PreTrainedModel], variant: Variant, quick: bool
) -> tuple[PreTrainedModel, str]:
    """A model of `kind` in training, and what is switched on in it."""
    config = configuration(kind, variant, quick)
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in kind(config).parameters())
    if size > LARGEST:
        raise NotMeasured(f"{size:,} parameters at two layers")
    torch.manual_seed(0)
    attention = "sdpa" if kind._supports_sdpa else "eager"
    model = kind._from_config(config, attn_implementation=attention).train()
    how = [attention]
    if "checkpoint" in variant.checked_parts and kind.supports_gradient_checkpointing:
        switch_on(model)
        how.append("checkpointing")
    return model, ", ".join(how)


def configuration(kind: type[PreTrainedModel], variant: Variant, quick: bool) -> Any:
    """Of the widths that are real, and two layers."""
    names = set(inspect.signature(kind.config_class).parameters) | set(
        kind.config_class().to_dict()
    )
    wanted = dict.fromkeys(LAYERS, 2) | WIDTHS.get(variant.parent.split(".")[-2], {})
    if quick:
        wanted |= TINY
    config = kind.config_class(**{name: value for name, value in wanted.items() if name in names})
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = 0
    return config


def batch(variant: Variant, quick: bool) -> dict[str, Tensor]:
    """Return texts of several lengths: padded, or concatenated for a packed variant."""
    draw = torch.Generator().manual_seed(0)
    lengths = [3, 7] if quick else [32, 64, 128]
    words = 90 if quick else 20000
    packed = "packed" in variant.name
    masked = any(head.endswith("ForMaskedLM") for head in variant.heads)
    texts = [torch.randint(5, words, (length,), generator=draw) for length in lengths]
    if packed:
        ids = torch.cat(texts)[None]
        positions = torch.cat([torch.arange(length) for length in lengths])[None]
        return {"input_ids": ids, "position_ids": positions, "labels": ids.clone()}
    ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)
    mask = (torch.arange(ids.shape[1]) < torch.tensor(lengths)[:, None]).long()
    labelled = mask.bool() & (torch.rand(ids.shape, generator=draw) < (0.15 if masked else 1.1))
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(~labelled, -100)}


def step_of(model: PreTrainedModel, given: dict[str, Tensor]) -> Callable[[], Tensor]:
    """A forward pass that gives the loss."""
    cache = (
        {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}
    )
    return lambda: model(**given, **cache).loss


def time_runs(step: Callable[[], Tensor]) -> float:
    """Seconds of a step, forward and backward."""
    begun = time.perf_counter()
    step().backward()
    return time.perf_counter() - begun


def counts(step: Callable[[], Tensor], model: PreTrainedModel) -> tuple[int, float, int]:
    """Return saved bytes, FLOPs and calls; gradients stay, so that no timed step creates them."""
    kept = count_saved_bytes(step, model)
    with count_fast_path() as pace:
        step().backward()
    return kept, pace.flops, pace.operations


def in_words(row: Row) -> str:
    """A line for the terminal."""
    time_ = row.time
    return (
        f"{row.name}: {time_.median:.2f} of the time ({time_.low:.2f} to {time_.high:.2f}), "
        f"{row.saved_allocations:.2f} saved, "
        f"{row.variant.flops / max(1, row.competitor.flops):.2f} FLOPs, "
        f"{row.variant.operations} operations where "
        f"stock ({row.against}) has {row.competitor.operations}"
    )


def page(rows: list[Row], left_out: list[tuple[str, str]]) -> str:
    """docs/gains.md."""
    lines = [
        "# What a variant gains",
        "",
        *HEAD.splitlines(),
        "",
        "![Time and memory of each variant, relative to its competitor](gains/gains.svg)",
        "",
        "| variant | parts | competitor | time | memory | FLOPs | operations |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    lines += [_line(row) for row in rows]
    if left_out:
        lines += ["", "Not measured:", "", *(f"- {name}: {why}" for name, why in left_out)]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    name = f"`{row.name}`" if row.gains else f"*`{row.name}`*"
    flops = row.variant.flops / max(1, row.competitor.flops)
    calls = row.variant.operations / max(1, row.competitor.operations)
    spread = f"{row.time.median:.2f} ({row.time.low:.2f} to {row.time.high:.2f})"
    figures = f"{spread} | {row.saved_allocations:.2f} | {flops:.2f} | {calls:.2f}"
    return f"| {name} | {', '.join(row.parts)} | {row.against} | {figures} |"


def picture(rows: list[Row]) -> str:
    """Two bars a variant: its time and what it keeps, over its competitor's."""
    drawn = []
    for row in sorted(rows, key=lambda row: row.time.median):
        spread = (row.time.low, row.time.high)
        drawn.append(Bar(row.name, (row.time.median,), f"{row.time.median:.2f}", spread, 1.0, 0))
        drawn.append(
            Bar("", (row.saved_allocations,), f"{row.saved_allocations:.2f}", None, 1.0, 1)
        )
    return bars(
        "Each variant beside the best that transformers has",
        drawn,
        across="time or memory, in units of transformers' (lower is better)",
        names=("time of a step", "kept for backward"),
    )


if __name__ == "__main__":
    main()
