"""Trains variants and their stock models on the shipped text, and compares their final losses.

    python benchmarks/training.py --out docs/records

For each pair: the same initial weights, the same rows in the same order, three seeds.  Writes
training.json, training.md and a chart of each pair.  The experts of a mixture are copies of the
FFN, so that it starts as the stock model.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.charts.lines import Line, lines
from patchgen.training.callback import describe_environment
from patchgen.training.loop.models import build, find_source
from patchgen.training.loop.options import Options
from patchgen.training.loop.run import train
from patchgen.training.loop.texts import SHIPPED, TrainingData, prepare_data, shipped_tokenizer

WITHIN = 0.02  # of the stock model's loss
SEEDS = (0, 1, 2)


@dataclass(frozen=True, slots=True)
class Pairing:
    """A stock model and the variants that are to end where it ends."""

    stock: str
    variants: tuple[str, ...]
    task: str
    sizes: tuple[str, ...]
    steps: int
    length: int
    packing: str
    vocabulary: int
    batch_size: str


PAIRS = (
    Pairing(
        "llama",
        ("llama_loss",),
        "causal-lm",
        ("hidden_size=64", "head_dim=16", "intermediate_size=160"),
        steps=400,
        length=128,
        packing="none",
        vocabulary=1024,
        batch_size="16",
    ),
    Pairing(
        "bert",
        ("bert_mlm", "bert_moe"),
        "masked-lm",
        ("hidden_size=64", "intermediate_size=160"),
        # What is hidden is hard to learn from so little text: few tokens, full rows, more steps.
        steps=1000,
        length=64,
        packing="concatenated",
        vocabulary=300,
        batch_size="32",
    ),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run's end, and its curve: the loss kept for evaluation, by steps."""

    model: str
    stock: str
    seed: int
    eval_loss: float
    curve: tuple[tuple[float, float], ...]
    frequencies: (
        float  # the loss of a model that knows how frequent each token is, and nothing else
    )


def runs(pair: Pairing, seed: int, share: float, place: Path) -> list[Run]:
    """The stock model and its variants, from the same weights."""
    options = Options(
        model=pair.stock,
        task=pair.task,
        tiny=True,
        config=list(pair.sizes),
        length=pair.length,
        packing=pair.packing,
        tokenizer=str(place / f"tokenizer-{pair.vocabulary}"),
    )
    texts = (path.read_text(encoding="utf-8") for path in sorted(SHIPPED.glob("*.txt")))
    tokenizer = shipped_tokenizer().train_new_from_iterator(texts, pair.vocabulary)
    tokenizer.save_pretrained(options.tokenizer)
    steps = max(1, int(share * pair.steps))
    given = {
        "max_steps": steps,
        "per_device_train_batch_size": int(pair.batch_size),
        "learning_rate": 3e-3,
        "warmup_steps": 0.1,
        "weight_decay": 0.1,
        "lr_scheduler_type": "cosine",
        "seed": seed,
        "eval_strategy": "steps",
        "eval_steps": 0.1,
        "save_strategy": "no",
        "use_cpu": True,
    }
    begin = place / f"{pair.stock}-{seed}"
    data = prepare_data(options, "", evaluated=True)
    build(find_source(options), options, data, seed).save_pretrained(begin)
    data.tokenizer.save_pretrained(begin)
    known = frequencies(data, len(data.tokenizer))
    found = []
    for model in (pair.stock, *pair.variants):
        asked = replace(options, model=model, weights=str(begin), tiny=False, config=[])
        folder = place / f"{model}-{seed}-run"
        figures = train(asked, {**given, "output_dir": str(folder)})
        state = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))
        curve = [(e["step"], e["eval_loss"]) for e in state["log_history"] if "eval_loss" in e]
        found.append(Run(model, pair.stock, seed, figures["eval_loss"], tuple(curve), known))
        print(f"{model} seed {seed}: {figures['eval_loss']:.4f}", file=sys.stderr)
    return found


def frequencies(data: TrainingData, vocabulary: int) -> float:
    """The loss, on what is kept, of the frequencies of tokens in what is trained on."""
    counted = Counter(int(token) for row in data.train for token in row["input_ids"])
    total = counted.total() + vocabulary
    kept = [int(token) for row in data.kept for token in row["input_ids"]]
    return -statistics.mean(math.log((counted[token] + 1) / total) for token in kept)


def summary(found: Sequence[Run]) -> list[dict[str, object]]:
    """Return each model's final losses by seed, and their distance from the stock model's."""
    stock = {(run.stock, run.seed): run.eval_loss for run in found if run.model == run.stock}
    rows = []
    for model in dict.fromkeys(run.model for run in found):
        mine = [run for run in found if run.model == model]
        losses = [run.eval_loss for run in mine]
        deviation = [run.eval_loss / stock[run.stock, run.seed] - 1 for run in mine]
        middle = (
            statistics.mean(losses) / statistics.mean([stock[run.stock, run.seed] for run in mine])
            - 1
        )
        rows.append(
            {
                "model": model,
                "stock": mine[0].stock,
                "losses": losses,
                "mean": statistics.mean(losses),
                "frequencies": mine[0].frequencies,
                "spread": max(losses) - min(losses),
                "from_stock_by_seed": deviation,
                "from_stock": middle,
                "within": abs(middle) <= WITHIN,
            }
        )
    return rows


def as_markdown(rows: Sequence[Mapping[str, object]], made: Mapping[str, object]) -> str:
    """The page."""
    ran = f"{made['device']}, {made['threads']} thread"
    releases = ", ".join(f"{name} {made['packages'][name]}" for name in ("torch", "transformers"))
    parts = [
        "# Variants beside the stock model",
        "`python benchmarks/training.py`: each variant and its stock model on the shipped text,\n"
        "with the same initial weights and the same rows in the same order, for three seeds. Loss\n"
        f"is the final loss on the passages for evaluation. {ran}, {releases}.",
        "| model | loss, mean of seeds | spread of seeds | from the stock model | by seed "
        "| frequencies alone |\n"
        "|---|---|---|---|---|---|\n" + "\n".join(_row(row) for row in rows),
        "Frequencies alone: the loss of a model that knows only how frequent each token is.\n"
        "A lower loss was learned from the order of the text.",
    ]
    parts += [
        f"![loss of {stock} and its variants]({stock}.svg)"
        for stock in dict.fromkeys(r["stock"] for r in rows)
    ]
    return "\n\n".join(parts) + "\n"


def _row(row: Mapping[str, object]) -> str:
    by_seed = ", ".join(f"{deviation:+.2%}" for deviation in row["from_stock_by_seed"])
    data = (f"{row['mean']:.4f}", f"{row['spread']:.4f}", f"{row['from_stock']:+.2%}", by_seed)
    return f"| {row['model']} | {' | '.join(data)} | {row['frequencies']:.2f} |"


def _every_seed(model: str, found: Sequence[Run]) -> Line:
    """The curves of a model's runs, one behind the other, with a gap between."""
    gap = (math.nan, math.nan)
    return Line(
        model, tuple(point for run in found if run.model == model for point in (*run.curve, gap))
    )


def main() -> int:
    """Run all; 1 where a variant ends farther from the stock model than WITHIN."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--share", type=float, default=1.0, help="of the steps")
    parser.add_argument("--only", help="one stock model")
    options = parser.parse_args()
    found: list[Run] = []
    with tempfile.TemporaryDirectory() as place:
        for pair in PAIRS:
            for seed in SEEDS if options.only in (None, pair.stock) else ():
                found += runs(pair, seed, options.share, Path(place))
    rows, made = summary(found), describe_environment("cpu")
    options.out.mkdir(parents=True, exist_ok=True)
    data = {
        "share": options.share,
        "made": made,
        "summary": rows,
        "runs": [asdict(run) for run in found],
    }
    (options.out / "training.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    (options.out / "training.md").write_text(as_markdown(rows, made), encoding="utf-8")
    for stock in dict.fromkeys(run.stock for run in found):
        mine = [run for run in found if run.stock == stock]
        drawn = [_every_seed(model, mine) for model in dict.fromkeys(run.model for run in mine)]
        title = f"{stock} and its variants: a line for each seed"
        up = "evaluation loss (nats)"
        picture = lines(title, drawn, across="optimizer step", up=up)
        (options.out / f"{stock}.svg").write_text(picture, encoding="utf-8")
    return 0 if all(row["within"] for row in rows) else 1


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    sys.exit(main())
