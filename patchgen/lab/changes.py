"""What does a variant change that no part of patchgen tells of?  Read from its diff.

Before, in the diff of a variant written by hand::

    -class AlbertLayer(nn.Module):
    +class AlbertLayer(GradientCheckpointingLayer):
    ...
    +    supports_gradient_checkpointing = True

After: `("checkpoint",)`, the name of a claim in `patchgen/lab/claims`.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

from patchgen.lab.mutation.changed_lines import added_by

CHECKPOINTING = "checkpoint"
FLAG, LAYER = "supports_gradient_checkpointing", "GradientCheckpointingLayer"


def changes_of(output: Path, text: str, parts: Collection[str]) -> tuple[str, ...]:
    """The claims that follow from the diff beside `output`, whose text is given."""
    diff = output.with_suffix(".diff")
    if CHECKPOINTING in parts or not diff.is_file():
        return ()
    changed = added_by(diff.read_text(encoding="utf-8"))
    return (CHECKPOINTING,) if any(_turns_on_checkpointing(ast.parse(text), changed)) else ()


def _turns_on_checkpointing(tree: ast.Module, changed: Collection[int]) -> Iterator[bool]:
    """Of each class: whether it newly says that it can be checkpointed, or is a layer that is."""
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
