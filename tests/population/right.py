"""Right changes: a model's file that computes the same in other words, or sums in another order.

`python -m tests.population.right --seconds 20` prints the verdict of 40 of them over 40 models: none
may fail.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.population.models import Model, find_models
from tests.population.neutral import judge

# Each by name: what stands in a file, and what computes the same in its place.
REWRITTEN = {
    "a product by its operator": (
        r"torch\.matmul\(([\w.]+), ([^()]+(?:\([^()]*\))?)\)",
        r"(\1 @ \2)",
    ),
    "keys that are turned by mT": (r"\bkey\.transpose\(2, 3\)", "key.mT"),
    "a square as a product": (r"\b(\w+)\.pow\(2\)\.mean", r"(\1 * \1).mean"),
    "a root that divides": (r"torch\.rsqrt\(([^()]+)\)", r"(1 / torch.sqrt(\1))"),
    "a softmax of the tensor": (
        r"nn\.functional\.softmax\((\w+), dim=-1, dtype=torch\.float32\)",
        r"\1.float().softmax(-1)",
    ),
    "a sum the other way round": (
        r"^( +hidden_states) = residual \+ hidden_states$",
        r"\1 = hidden_states + residual",
    ),
    "scaled queries": (
        r"torch\.matmul\(query, key\.transpose\(2, 3\)\) \* scaling",
        "torch.matmul(query * scaling, key.transpose(2, 3))",
    ),
    "a view that may copy": (r"\.view\(", ".reshape("),
    "a step under a test that holds": (
        r"^( +)(hidden_states = self\.\w+\(hidden_states\))$",
        r"\1if self.training is not None:\n\1    \2",
    ),
    "a step of two": (
        r"^( +)hidden_states = self\.(\w+)\(self\.(\w+)\(hidden_states\)\)$",
        r"\1inner = self.\3(hidden_states)\n\1hidden_states = self.\2(inner)",
    ),
}


def rewrite(kind: str, text: str) -> str:
    old, new = REWRITTEN[kind]
    return re.sub(old, new, text, flags=re.M)


def find_right(number: int) -> Iterator[tuple[Model, str]]:
    """So many models, evenly over all that a kind fits, each with one that fits it."""
    fits = [(model, _kinds_of(model)) for model in find_models()]
    fits = [(model, kinds) for model, kinds in fits if kinds]
    for place in range(number):
        model, kinds = fits[place * len(fits) // number]
        yield model, kinds[zlib.crc32(model.name.encode()) % len(kinds)]


def _kinds_of(model: Model) -> list[str]:
    return [kind for kind in REWRITTEN if rewrite(kind, model.text) != model.text]


def judge_right(model: Model, kind: str, home: Path, seconds: float) -> dict[str, Any]:
    found = judge(model, home, seconds, lambda text: rewrite(kind, text), "right")
    return {"change": kind, **found}


def _judge_apart(model: Model, kind: str, home: str, seconds: float) -> None:
    sys.stdout.reconfigure(line_buffering=True)
    print(json.dumps(judge_right(model, kind, Path(home), seconds)))


def main() -> None:
    """Each model in a process of its own, which is a copy of one that has imported everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--number", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=20)
    asked = parser.parse_args()
    import patchgen.verifying.case_runner  # noqa: F401

    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as home:
        for model, kind in find_right(asked.number):
            child = context.Process(target=_judge_apart, args=(model, kind, home, asked.seconds))
            child.start()
            child.join()
            if child.exitcode:
                print(json.dumps({"model": model.name, "verdict": f"died: {child.exitcode}"}))


if __name__ == "__main__":
    main()
