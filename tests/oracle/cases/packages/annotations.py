# `from __future__ import annotations` in some files of a package.
# The format is told in ../../packages.py.

# === strings in annotations that are no types
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
def sized(text):
    note("sized", text)
    return int


class Float:
    def __class_getitem__(cls, sizes):
        return cls


class ToyBlock:
    def run(self, x: Float["batch"], y: sized("rows") = <1>) -> "Nowhere":
        return [x, y]
# --- modular_neo.py
from . import modeling_toy as up


class ToyBlock(up.ToyBlock):
    def run(self, x: up.Float["heads"], y: up.sized("columns") = <2>) -> "Unknown":
        z: "Later" = super().run(x, y)
        return z
# --- probe
ToyBlock().run(1)
