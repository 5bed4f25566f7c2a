"""Grouped experts that a project has by hand, for the loops that no writer knows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from patchgen.syntax.locate import Environment

GROUPED = "grouped"


def by_hand(env: Environment, file: str) -> str:
    """The text of the modular file of that dotted name in the project; "" where it has none."""
    path = env.path(file)
    return "" if path is None else path.read_text(encoding="utf-8")


def classes_of(modular: str) -> Iterator[str]:
    """The classes that a modular file changes."""
    for node in ast.parse(modular).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
