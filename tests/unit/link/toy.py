"""A package `own` with a parent and a modular file, for tests of what is decided about a modular file."""

from pathlib import Path

from patchgen.compiler.plan.bindings import Bindings, FlattenScope
from patchgen.syntax.blocks import ModuleIndex
from patchgen.syntax.locate import make_environment

PARENT = """import torch


def scale(x):
    return x * 2


class ToyMLP(torch.nn.Module):
    def forward(self, x):
        return scale(x)


class ToyModel(torch.nn.Module):
    layer = ToyMLP


__all__ = ["ToyModel"]
"""


def read_modular(top: Path, text: str, parent: str = PARENT) -> tuple[ModuleIndex, Bindings]:
    """The blocks of the modular file `own.modular_toy_fast` with `text`, and what its names mean."""
    package = top / "own"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "modeling_toy.py").write_text(parent)
    (package / "modular_toy_fast.py").write_text(text)
    bindings = Bindings(make_environment(top), FlattenScope("own"))
    return bindings.env.index("own.modular_toy_fast", None), bindings
