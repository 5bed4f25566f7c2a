"""One case: a single question about a variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from patchgen.verify.parts.part_check import Rows, Scenario

ROWS: tuple[Rows, ...] = ("full", "right", "left", "packed")
# Texts of one token and no full row; rows of one, two and three texts.
ODD_ROWS: tuple[Rows, ...] = ("short", "several")
# Rows without packed texts, which many models cannot keep apart.
UNPACKED_ROWS = ROWS[:3]
PADDED_ROWS = ROWS[1:3]
EVAL_ROWS: tuple[Rows, ...] = ("full", "left")
ROUTES = ("closest", "independent")
DROPOUT = 0.2
# Tokens: longer than any window, so that scores become larger than what they are made of.
LONG = 37


@dataclass(frozen=True, slots=True)
class Case:
    """One question about a variant.  `kind` is a key of `checks.CHECKS`."""

    name: str
    kind: str
    head: str
    dtype: str = "float32"
    route: int = 0  # 0: the closest, 1: the most independent, 2: both sides eager
    scenario: Scenario = Scenario()
    # Changes of the configuration.  It must have the first name, and may have the others.
    changes: tuple[tuple[str, Any], ...] = ()
    # An argument of the kind: the name of a planted error, of an attention, of a compiler.
    detail: str = ""
    # Apply all of `changes`, whether the configuration lists such names or not.
    whole: bool = False
    # The attention function of a cache: a key of `checks.interface`; "" is the variant's own.
    attention: str = ""
    # Beside the parent itself, at the neutral point that the modular file names.
    neutral: bool = False
    # Nothing says that the model takes `changes`: if it refuses them, there is nothing to compare.
    drawn: bool = False


def compare_numbers(head: str, dtype: str, label: str, scenario: Scenario, route: int = 0) -> Case:
    """The case that compares all numbers of one step, called "LlamaModel float64 left train"."""
    return Case(f"{head} {dtype} {label}", "numbers", head, dtype, route, scenario)
