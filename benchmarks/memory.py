"""Writes the tables of `patchgen memory`: against measurements, for BERT-large, and for large
models.

    python benchmarks/memory.py [--out docs/records]

The first table measures tiny models of many families, on this machine's CPU.  The others only
predict, for CUDA, and need no GPU: how the memory of BERT-large changes with each method, and what
batch of large models fits a card.  Writes memory.json, memory.md, memory.svg and memory-walk.svg.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch
import transformers

from benchmarks.charts.bars import Bar, bars
from patchgen.syntax.errors import PatchgenError
from patchgen.training.memory.figures import ROLES, find_peak, summarize
from patchgen.training.memory.fits import largest_batch
from patchgen.training.memory.measure import measure_step
from patchgen.training.memory.report import draw, format_size
from patchgen.training.memory.step import Setup, predict_step
from patchgen.training.memory.target import Choice, Target, find_target

REPOSITORY = Path(__file__).resolve().parents[1]

# Of families that differ in what they keep; those with a variant's name are of the gallery.
FAMILIES = (
    *(
        "bert",
        "gpt2",
        "t5",
        "llama",
        "gemma2",
        "bloom",
        "deberta-v2",
        "xlnet",
        "funnel",
        "electra",
        "albert",
    ),
    *(
        "mamba",
        "jamba",
        "rwkv",
        "mixtral",
        "qwen3_moe",
        "switch_transformers",
        "deepseek_v3",
        "llama4_text",
    ),
    *("vit", "swin", "clip", "resnet", "lxmert", "whisper", "hubert", "patchtst", "opt"),
    *("llama_moe", "llama_loss", "bert_padding_free", "gpt2_loss", "dbrx_grouped"),
)
TINY = Setup(batch=3, length=40)
# The same, trained in other ways.
WAYS = (
    {"precision": "pure-bf16"},
    {"precision": "amp-bf16"},
    {"optimizer": "sgd"},
    {"optimizer": "adafactor"},
    {"optimizer": "adamw-foreach"},
    {"accumulate": 4},
    {"checkpoint": "full"},
    {"checkpoint": "selective", "every": 2},
)
WALKED = Setup(batch=4, length=512, attention="eager", device="cuda")
# Each with what is above it.
WALK: tuple[tuple[str, dict[str, object]], ...] = (
    ("none: float32, batches of 4, eager attention, AdamW", {}),
    ("batches of 1, 4 of them accumulated", {"batch": 1, "accumulate": 4}),
    ("every layer checkpointed", {"checkpoint": "full"}),
    ("autocast to bfloat16", {"precision": "amp-bf16"}),
    ("Adafactor", {"optimizer": "adafactor"}),
    ("batches of 4 again, in the memory that is free now", {"batch": 4, "accumulate": 1}),
)
ALONE: tuple[tuple[str, dict[str, object]], ...] = (
    ("sdpa", {"attention": "sdpa"}),
    ("autocast to bfloat16", {"precision": "amp-bf16"}),
    ("all in bfloat16", {"precision": "pure-bf16"}),
    ("AdamW foreach", {"optimizer": "adamw-foreach"}),
    ("SGD", {"optimizer": "sgd"}),
)
# (model, configuration, how, card)
LARGE: tuple[tuple[str, str | None, dict[str, object], str], ...] = (
    ("llama-1b", None, {}, "24GB"),
    ("llama_loss", "llama-1b", {}, "24GB"),
    ("llama_loss", "llama-1b", {"checkpoint": "full"}, "24GB"),
    ("llama_loss", "llama-1b", {"checkpoint": "selective"}, "24GB"),
    ("llama-8b", None, {}, "80GB"),
    ("llama-8b", None, {"checkpoint": "full"}, "80GB"),
    ("llama_loss", "llama-8b", {"checkpoint": "full"}, "80GB"),
    ("qwen3-30b-a3b", None, {"optimizer": "adafactor"}, "141GB"),
)
LENGTH = 2048


def compared() -> Iterator[tuple[str, ...]]:
    """Rows of the first table."""
    cases = [(name, TINY) for name in FAMILIES]
    cases += [("llama", replace(TINY, **way)) for way in WAYS]
    for name, setup in cases:
        target = find_target(name, Choice(tiny=True), REPOSITORY)
        guess, truth = summarize(predict_step(target, setup)), measure_step(target, setup)
        kept = f"{guess.saved / truth.saved - 1:+.2%}"
        most = f"{guess.peak / truth.peak - 1:+.2%}"
        how = ", ".join(
            f"{key} {value}" for key, value in asdict(setup).items() if value != getattr(TINY, key)
        )
        yield name, how, format_size(truth.saved), kept, format_size(truth.peak), most
        print(name, how, kept, most, flush=True)


def walked(target: Target) -> Iterator[tuple[tuple[str, ...], Bar]]:
    """Rows of the second table, each with what it looks like."""
    setup = WALKED
    for name, change in WALK:
        setup = replace(setup, **change)
        yield _anatomy(name, target, setup)
    for name, change in ALONE:
        yield _anatomy(f"{name} alone", target, replace(WALKED, **change))


def _anatomy(name: str, target: Target, setup: Setup) -> tuple[tuple[str, ...], Bar]:
    trace = predict_step(target, setup)
    found, most = summarize(trace), find_peak(trace)
    print(name, format_size(most.bytes), flush=True)
    parts = (found.weights, found.gradients, found.optimizer, found.saved, most.bytes)
    roles = most.roles
    heights = tuple(roles.get(role, 0) / 1e9 for role in ROLES)
    return (name, *map(format_size, parts), most.phase), Bar(name, heights, format_size(most.bytes))


def large() -> Iterator[tuple[str, ...]]:
    """Rows of the third table."""
    for name, config, change, card in LARGE:
        target = find_target(name, Choice(config=config), REPOSITORY)
        setup = Setup(length=LENGTH, precision="pure-bf16", device="cuda", **change)
        began = time.perf_counter()
        trace = predict_step(target, setup)
        took = time.perf_counter() - began
        found = summarize(trace)
        try:
            most = str(largest_batch(target, setup, int(card.removesuffix("GB")) * 10**9))
        except PatchgenError:
            most = "none"
        how = ", ".join(str(value) for value in change.values()) or "-"
        title = f"{name} at {config}" if config else name
        per_token = format_size(found.saved / LENGTH)
        yield (
            title,
            how,
            f"{trace.parameters / 1e9:.2f} G",
            format_size(found.peak),
            per_token,
            card,
            most,
            f"{took:.0f} s",
        )
        print(title, how, format_size(found.peak), most, flush=True)


def as_table(heads: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> str:
    """Markdown; the first `words` columns are words, the others figures."""
    rule = ["---"] * words + ["---:"] * (len(heads) - words)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (heads, rule, *rows))


def main() -> None:
    """Predict, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs/records")
    options = parser.parse_args()
    bert = find_target("bert-large", Choice(head="BertForSequenceClassification"), REPOSITORY)
    walk = list(walked(bert))
    tables = {
        "Tiny models on the CPU, predicted against measured": (
            ("model", "change", "saved activations", "error", "peak", "error"),
            list(compared()),
            2,
        ),
        "BertForSequenceClassification, BERT-large, 2,048 tokens a step, predicted for CUDA": (
            (
                "change, added to those above",
                "weights",
                "gradients",
                "optimizer",
                "saved activations",
                "peak",
                "phase of the peak",
            ),
            [row for row, _ in walk],
            1,
        ),
        f"Large models in bfloat16 with AdamW unless stated, rows of {LENGTH:,} tokens, "
        "predicted for CUDA": (
            (
                "model",
                "settings",
                "parameters",
                "peak, 1 row",
                "saved per token",
                "card",
                "rows that fit",
                "time to predict",
            ),
            list(large()),
            2,
        ),
    }
    about = f"torch {torch.__version__}, transformers {transformers.__version__}."
    parts = [f"{title}:\n\n{as_table(*table)}" for title, table in tables.items()]
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "memory.md").write_text("\n".join([*parts, about, ""]), encoding="utf-8")
    data = {title: [dict(enumerate(row)) for row in rows] for title, (_, rows, _) in tables.items()}
    (options.out / "memory.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    title = "What BERT-large holds at its peak (predicted)"
    bars_of_walk = [bar for _, bar in walk]
    drawn = bars(title, bars_of_walk, across="memory, GB", names=tuple(ROLES.values()))
    (options.out / "memory-walk.svg").write_text(drawn, encoding="utf-8")
    draw(predict_step(bert, WALKED), options.out / "memory.svg", 24 * 10**9)


if __name__ == "__main__":
    main()
