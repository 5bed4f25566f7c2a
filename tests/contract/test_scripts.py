"""What scripts outside the package import from it is there."""

from __future__ import annotations

import ast
import importlib

import pytest

from tests.toytree import REPOSITORY

pytest.importorskip("torch")
pytest.importorskip("transformers")
SCRIPTS = [
    path.relative_to(REPOSITORY).as_posix()
    for folder in ("benchmarks", "launch", "utils")
    for path in sorted((REPOSITORY / folder).rglob("*.py"))
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_imports_exist(script: str) -> None:
    tree = ast.parse((REPOSITORY / script).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("patchgen"):
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                if not hasattr(module, alias.name):  # a module of the package
                    importlib.import_module(f"{node.module}.{alias.name}")
