"""Writes the tables of docs/scaling.md: what `patchgen memory --engine` predicts on 8 to 1024 GPUs.

    python benchmarks/scaling.py [--out docs/scaling] [--again]

Nothing runs on a GPU and nothing is measured: every figure is that of the first rank, computed from
shapes.  It takes half an hour on one core, and continues after an interrupt.  Writes scaling.json,
tables.md, memory.svg and sent.svg.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers

from patchgen.training.charts.bars import Bar, bars
from patchgen.training.memory.chart import LAYERS
from patchgen.training.memory.collectives import sum_exchanges
from patchgen.training.memory.figures import find_peak, summarize
from patchgen.training.memory.layout import Layout
from patchgen.training.memory.report import format_size
from patchgen.training.memory.setup import Setup
from patchgen.training.memory.target import Choice, find_target
from patchgen.training.memory.zero import predict

REPOSITORY = Path(__file__).resolve().parents[1]
LENGTH = 4096
CARD = 80 * 10**9
DENSE = "llama_loss"
MIXTURE = "qwen3_moe_checkpoint_loss"


@dataclass(frozen=True)
class Cell:
    """One prediction."""

    table: str
    model: str
    config: str
    engine: str
    ranks: int
    precision: str = "fsdp-mixed"
    length: int = LENGTH
    changes: tuple[tuple[str, Any], ...] = ()

    @property
    def key(self) -> str:
        more = [f"{name}={value}" for name, value in self.changes]
        return " ".join(
            [self.config, self.engine, str(self.ranks), self.precision, str(self.length), *more]
        )


def _cells(
    table: str, model: str, config: str, engines: Sequence[tuple[str, Sequence[int]]]
) -> Iterator[Cell]:
    for ranks in (8, 64, 1024):
        for engine, where in engines:
            if ranks in where:
                yield Cell(
                    table,
                    model,
                    config,
                    engine,
                    ranks,
                    "amp-bf16" if engine in ("ddp", "tp") else "fsdp-mixed",
                )


EVERY = (8, 64, 1024)
CELLS = (
    *_cells(
        "8 B",
        DENSE,
        "llama-8b",
        [
            ("ddp", (8, 1024)),
            ("zero1", (8,)),
            ("zero2", (8,)),
            ("zero3", (8, 64)),
            ("fsdp2", EVERY),
            ("tp", (8,)),
            ("fsdp2+tp,size=8", (64, 1024)),
        ],
    ),
    *_cells(
        "70 B",
        DENSE,
        "llama-70b",
        [("zero3", (64,)), ("fsdp2", EVERY), ("tp", (8,)), ("fsdp2+tp,size=8", (64, 1024))],
    ),
    Cell("70 B", DENSE, "llama-70b", "fsdp2", 64, "amp-bf16"),
    *_cells(
        "30 B, 3 B of them for a token",
        MIXTURE,
        "qwen3-30b-a3b",
        [("fsdp2", EVERY), ("ep,size=8", EVERY)],
    ),
    Cell("length", DENSE, "llama-8b", "fsdp2", 64, length=65536),
    Cell("length", DENSE, "llama-8b", "fsdp2+tp,size=8", 64, length=65536),
    Cell("experts", MIXTURE, "qwen3-30b-a3b", "ep,size=8", 64, changes=(("num_experts", 256),)),
)


@dataclass
class Store:
    """What is known, in a file that is written after each cell."""

    path: Path
    found: dict[str, dict[str, Any]] = field(default_factory=dict)

    def load(self) -> None:
        if self.path.is_file():
            self.found = json.loads(self.path.read_text(encoding="utf-8"))["cells"]

    def write(self) -> None:
        about = {"torch": torch.__version__, "transformers": transformers.__version__}
        data = {"about": about, "cells": self.found}
        self.path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def predict_step(cell: Cell) -> dict[str, Any]:
    """The figures of one cell, in bytes."""
    began = time.perf_counter()
    target = find_target(cell.model, Choice(config=cell.config, changes=cell.changes), REPOSITORY)
    trace = predict(
        target,
        Setup(
            length=cell.length,
            precision=cell.precision,
            checkpoint="full",
            device="cuda",
            layout=Layout(cell.engine, cell.ranks),
        ),
    )
    summary, most = summarize(trace), find_peak(trace)
    return {
        "parameters": trace.parameters,
        "weights": summary.weights,
        "gradients": summary.gradients,
        "optimizer": summary.optimizer,
        "buckets": summary.exchange,
        "saved": summary.saved,
        "peak": most.bytes,
        "when": most.phase,
        "roles": dict(most.roles),
        "sent": [
            [each.kind, each.phase, each.ranks, each.times, round(each.sent)]
            for each in sum_exchanges(trace.exchanges)
        ],
        "seconds": round(time.perf_counter() - began),
    }


def _row(cell: Cell, found: dict[str, Any]) -> tuple[str, ...]:
    held = [found[name] for name in ("weights", "gradients", "optimizer", "saved", "peak")]
    sent = _by_kind(found)
    fits = "yes" if found["peak"] <= CARD else "no"
    traffic = [format_size(each) if each else "" for each in (*sent, sum(sent))]
    engine = f"{cell.engine}, autocast" if cell.precision == "amp-bf16" else cell.engine
    return f"{cell.ranks:,}", engine, *map(format_size, held), fits, *traffic


KINDS = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all")


def _by_kind(found: dict[str, Any]) -> tuple[float, ...]:
    """Bytes that a rank sends in a step, by collective."""
    return tuple(
        sum(sent for kind, _, _, _, sent in found["sent"] if kind == each) for each in KINDS
    )


HEADS = (
    "GPUs",
    "engine",
    "weights",
    "gradients",
    "states",
    "kept",
    "peak",
    "80 GB",
    *KINDS,
    "sent",
)


def as_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown; the second column is words.  A column without a figure is left out."""
    columns = [at for at, _ in enumerate(heads) if any(row[at] for row in rows)]
    heads, rows = [heads[at] for at in columns], [[row[at] for at in columns] for row in rows]
    rule = ["---:", "---"] + ["---:"] * (len(heads) - 2)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (heads, rule, *rows))


def tables(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Every table, under what it is of."""
    for name in dict.fromkeys(cell.table for cell in CELLS):
        cells = [cell for cell in CELLS if cell.table == name and cell.key in found]
        if name == "length":
            rows = [(f"{cell.length:,}", *_row(cell, found[cell.key])[1:]) for cell in cells]
            yield f"8 B on 64 GPUs, longer rows:\n\n{as_table(('tokens', *HEADS[1:]), rows)}"
        elif name == "experts":
            rows = [_row(cell, found[cell.key]) for cell in cells]
            yield f"The mixture with 256 experts in place of 128:\n\n{as_table(HEADS, rows)}"
        elif cells:
            count = found[cells[0].key]["parameters"] / 1e9
            about = f"{cells[0].config}, {count:.2f} G parameters"
            rows = [_row(cell, found[cell.key]) for cell in cells]
            yield f"{name} ({about}):\n\n{as_table(HEADS, rows)}"


def pictures(found: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """(name, SVG)."""
    drawn = [
        cell for cell in CELLS if cell.table not in ("length", "experts") and cell.key in found
    ]
    rows = []
    for cell in drawn:
        roles = found[cell.key]["roles"]
        heights = tuple(
            sum(roles.get(role, 0) for role in layer) / 1e9 for layer in LAYERS.values()
        )
        rows.append(Bar(_label(cell), heights, format_size(found[cell.key]["peak"])))
    # Bars above three cards would leave nothing to see of the others.
    rows = [row for row in rows if sum(row.parts) <= 3 * CARD / 1e9]
    yield (
        "memory.svg",
        bars(
            "What a GPU holds at its peak (predicted)",
            rows,
            across="memory, GB",
            names=tuple(LAYERS),
        ),
    )
    rows = []
    for cell in drawn:
        sent = _by_kind(found[cell.key])
        rows.append(Bar(_label(cell), tuple(each / 1e9 for each in sent), format_size(sum(sent))))
    yield "sent.svg", bars("What a GPU sends (predicted)", rows, across="GB in a step", names=KINDS)


def _label(cell: Cell) -> str:
    label = f"{cell.table.partition(',')[0]}, {cell.ranks:,} GPUs, {cell.engine}"
    return (
        f"{label}, autocast" if cell.precision == "amp-bf16" and "fsdp2" in cell.engine else label
    )


def main() -> None:
    """Predict and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs/scaling")
    parser.add_argument("--again", action="store_true", help="Predict what is known already.")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    store = Store(options.out / "scaling.json")
    if not options.again:
        store.load()
    for cell in CELLS:
        if cell.key not in store.found:
            store.found[cell.key] = predict_step(cell)
            store.write()
            print(
                cell.key,
                format_size(store.found[cell.key]["peak"]),
                store.found[cell.key]["seconds"],
                flush=True,
            )
    about = (
        f"Of one GPU, in a step of one row of {LENGTH:,} tokens for each GPU (each group of tp),"
        f" every layer checkpointed, AdamW.  torch {torch.__version__},"
        f" transformers {transformers.__version__}.  Nothing of this was run on GPUs.\n"
    )
    (options.out / "tables.md").write_text(
        "\n".join([*tables(store.found), about]), encoding="utf-8"
    )
    for name, drawn in pictures(store.found):
        (options.out / name).write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
