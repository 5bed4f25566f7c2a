"""Reads `cases.toml`: what is compared, and what the words in an entry's name mean."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from patchgen import disk
from patchgen.syntax.errors import did_you_mean

TABLE = Path(__file__).with_name("cases.toml")
# What an entry begins with; any other first word is a variant.
BEGINS: dict[str, dict[str, Any]] = {
    "eager": {"attention": "eager"},
    "sdpa": {},
    "flash_attention_2": {"attention": "flash_attention_2"},
    "Liger": {"liger": True},
    "linear_cross_entropy": {"loss": "linear_cross_entropy"},  # of torch
    "lean experts": {"experts": "lean"},  # of `patchgen.runtime`
}
WORDS: dict[str, dict[str, Any]] = {
    "compile": {"compiled": "whole"},
    "compiled layers": {"compiled": "layers"},
    "checkpointing": {"checkpoint": "full"},
    "selective": {"checkpoint": "selective"},
    "packed": {"layout": "packed", "attention": "varlen"},
    "fastest attention": {"attention": "fastest"},  # FlashAttention, the best that is installed
    "float32": {"precision": "fp32"},
    "TF32": {"precision": "tf32"},
    "float16": {"precision": "amp-fp16"},
    "autocast": {"precision": "amp-bf16"},
    "loop": {"optimizer": "adamw-loop"},
    "foreach": {"optimizer": "adamw-foreach"},
    "Adafactor": {"optimizer": "torch-adafactor"},
    "8-bit": {"optimizer": "adamw-8bit"},
    "accumulated": {"accumulate": 4},
    "rows x4": {"times": 4},
}
TINY_LENGTH, TINY_ROWS, TINY_TEXTS = 32, 2, (6, 20)


@dataclass(frozen=True, slots=True)
class Entry:
    """One way to train a model; weights are bfloat16 and the optimizer fused AdamW by default."""

    name: str
    variant: str = ""
    attention: str = "sdpa"
    compiled: str = ""  # "whole", or "layers": each by itself
    checkpoint: str = ""
    liger: bool = False
    loss: str = ""
    experts: str = ""
    precision: str = "pure-bf16"
    optimizer: str = "adamw"
    accumulate: int = 1
    layout: str = "padded"
    times: int = 1  # the rows of the case


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the table."""

    id: str
    about: str
    model: str
    head: str
    rows: int
    length: int
    entries: tuple[Entry, ...]
    targets: tuple[tuple[list[str], list[str], str, float], ...] = ()
    task: str = "causal"
    config: dict[str, Any] = field(default_factory=dict)
    shortest: int | None = None
    packed: tuple[int, int] | None = None
    tiny: bool = False

    @property
    def baseline(self) -> Entry:
        """Return the entry that others are compared with."""
        return self.entries[0]

    def texts(self, rows: int) -> tuple[int, ...]:
        """Return the lengths of all texts, the same for the same case and rows."""
        draw = random.Random(0)
        if self.shortest is not None:
            # One length from each of as many equal ranges as there are rows.
            wide = (self.length - self.shortest + 1) / rows
            ranges = list(range(rows))
            draw.shuffle(ranges)
            return tuple(self.shortest + int((each + draw.random()) * wide) for each in ranges)
        if self.packed is None:
            return (self.length,) * rows
        texts: list[int] = []
        for row in range(1, rows + 1):
            while (left := row * self.length - sum(texts)) > 0:
                texts.append(min(left, draw.randint(*self.packed)))
        return tuple(texts)

    def shape(self, entry: Entry, rows: int) -> tuple[int, int]:
        """Return rows and length of a batch, with padding, for so many rows of the case."""
        rows *= entry.times
        if self.packed is None or entry.layout == "packed":
            return rows, self.length
        texts = self.texts(rows)
        return len(texts), max(texts)


def parse_entry(name: str, precision: str) -> Entry:
    """Return the entry that a name means: a beginning and words, joined by " + "."""
    first, *words = name.split(" + ")
    options: dict[str, Any] = {"precision": precision}
    options |= BEGINS.get(first, {"variant": first})
    for word in words:
        options |= WORDS[word]
    return Entry(name, **options)


def load_cases() -> tuple[Case, ...]:
    """Return all cases, in the order in which they matter."""
    table = tomllib.loads(disk.text_of(TABLE))
    cases = []
    for values in table["case"]:
        precision = values.pop("precision", "pure-bf16")
        entries = tuple(parse_entry(name, precision) for name in values.pop("entries"))
        config = table["sizes"].get(values.pop("size", ""), {})
        targets = tuple(tuple(target) for target in values.pop("targets", ()))
        packed = tuple(values.pop("packed", ())) or None
        cases.append(Case(**values, entries=entries, config=config, targets=targets, packed=packed))
    return tuple(cases)


def choose_cases(ids: Sequence[str], only: Sequence[str], *, tiny: bool) -> tuple[Case, ...]:
    """Return the cases whose ids begin with one of `ids`; with `only`, these entries and baselines.

    Raises UsageError for an unknown name.
    """
    cases = load_cases()
    for name in ids:
        if not any(case.id.startswith(name) for case in cases):
            _refuse(name, "is no case", [case.id for case in cases])
    chosen = [case for case in cases if not ids or any(case.id.startswith(name) for name in ids)]
    names = {name for case in chosen for e in case.entries for name in (e.name, e.variant) if name}
    for name in only:
        if name not in names:
            _refuse(name, "is no entry and no variant of these cases", sorted(names))
    if only:
        chosen = [
            replace(case, entries=entries)
            for case in chosen
            if len(entries := _only(case, only)) > 1 or case.baseline.name in only
        ]
    return tuple(_tiny(case) if tiny else case for case in chosen)


def _only(case: Case, only: Sequence[str]) -> tuple[Entry, ...]:
    chosen = (e for e in case.entries[1:] if e.name in only or e.variant in only)
    return (case.baseline, *chosen)


def _refuse(name: str, what: str, names: Sequence[str]) -> None:
    hint = did_you_mean(name, names) or f"there are {', '.join(names)}"
    raise click.UsageError(f"{name} {what}; {hint}")


def _tiny(case: Case) -> Case:
    """Return the case with two rows of 32 tokens, and a tiny model."""
    entries = tuple(replace(e, accumulate=min(2, e.accumulate), times=1) for e in case.entries)
    return replace(
        case,
        rows=TINY_ROWS,
        length=TINY_LENGTH,
        shortest=8 if case.shortest else None,
        packed=TINY_TEXTS if case.packed else None,
        entries=entries,
        tiny=True,
    )
