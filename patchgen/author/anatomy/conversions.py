"""What transformers converts in checkpoints of a model, from the text of its conversion table."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from patchgen.author.anatomy.code import argument, called, constant, walk
from patchgen.author.anatomy.module import Module


def find_configurations(module: Module) -> list[Path]:
    return sorted(module.folder.glob("configuration_*.py")) if module.folder is not None else []


def makes_weight(module: Module, weight: str) -> bool:
    """Whether the table makes `weight`, such as "mlp.up_proj.weight", of other tensors."""
    return any(re.search(rf"{target}(?!\w)", weight) for target in _targets(module))


def _targets(module: Module) -> Iterator[str]:
    """The patterns of names that conversions of `module` give."""
    tree, names = _table(module), _names(module)
    entries = [] if tree is None else [*_entries(tree)]
    # Another model's conversions are listed under its name: {"voxtral": "qwen2_audio"}.
    names |= {str(constant(value)) for name, value in entries if name in names and constant(value)}
    for name, value in entries:
        if name in names:
            for call in walk(value, ast.Call):
                targets = argument(call, 1, "target_patterns")
                if called(call) == "WeightConverter" and targets is not None:
                    yield from (str(node.value) for node in walk(targets, ast.Constant))


def _entries(tree: ast.Module) -> Iterator[tuple[object, ast.expr]]:
    for table in walk(tree, ast.Dict):
        for key, value in zip(table.keys, table.values, strict=True):
            yield constant(key), value


def _names(module: Module) -> set[str]:
    """The types of the models of `module`, and its classes."""
    found = set(module.classes)
    for path in find_configurations(module):
        found.update(re.findall(r'model_type = "(\w+)"', path.read_text(encoding="utf-8")))
    return found


def _table(module: Module) -> ast.Module | None:
    if module.folder is None:
        return None
    path = module.folder.parents[1] / "conversion_mapping.py"
    return _parsed(path) if path.is_file() else None


@functools.lru_cache(maxsize=2)
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
