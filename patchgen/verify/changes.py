"""Find what a variant changes without a part of patchgen, from its diff.

Before, in the diff of a variant written by hand::

    -class AlbertLayer(nn.Module):
    +class AlbertLayer(GradientCheckpointingLayer):
    ...
    +    supports_gradient_checkpointing = True

After: `("checkpoint",)`, the name of a module in `patchgen/verify/parts`.  Experts that newly use
transformers' grouped GEMMs, by its decorator or its function, give `("grouped",)`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from patchgen.verify.diff_lines import find_added_lines

CHECKPOINTING, INTERFACE, GROUPED = "checkpoint", "attention_interface", "grouped"
EXPERTS = re.compile(r"@use_experts_implementation|\b_grouped_linear\(")
LOOKUP = "ALL_ATTENTION_FUNCTIONS.get_interface"
SAYS_SDPA = "_supports_sdpa = True"
FLAG, LAYER = "supports_gradient_checkpointing", "GradientCheckpointingLayer"


def changes_of(output: Path, text: str, parts: Collection[str]) -> tuple[str, ...]:
    """The part checks that the diff beside `output` asks for; `text` is the output's text."""
    diff = output.with_suffix(".diff")
    if not diff.is_file():
        return ()
    changed = find_added_lines(diff.read_text(encoding="utf-8"))
    tree = ast.parse(text)
    found = {
        CHECKPOINTING: CHECKPOINTING not in parts and any(_turns_on_checkpointing(tree, changed)),
        INTERFACE: "sdpa" not in parts and any(_calls_the_interface(tree, changed)),
        GROUPED: any(
            EXPERTS.search(line)
            for number, line in enumerate(text.splitlines(), 1)
            if number in changed
        ),
    }
    return tuple(name for name, holds in found.items() if holds)


def _calls_the_interface(tree: ast.Module, changed: Collection[int]) -> Iterator[bool]:
    """For each changed statement, whether it looks up an attention or declares SDPA support."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.lineno in changed:
            yield ast.unparse(node.func) == LOOKUP
        elif isinstance(node, ast.Assign) and node.lineno in changed:
            yield ast.unparse(node) == SAYS_SDPA


def _turns_on_checkpointing(tree: ast.Module, changed: Collection[int]) -> Iterator[bool]:
    """For each class, whether it newly supports checkpointing or becomes a checkpointed layer."""
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        yield LAYER in bases and node.lineno in changed
        for statement in node.body:
            if isinstance(statement, ast.Assign) and statement.lineno in changed:
                value = statement.value
                is_true = isinstance(value, ast.Constant) and value.value is True
                yield is_true and ast.unparse(statement.targets[0]) == FLAG
