# expect: R
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
import functools


@functools.singledispatch
def describe(x):
    return "any"


@describe.register
def _(x: int):
    return "int"


class ToyBlock:
    def run(self):
        return describe(1), describe("a"), describe(2.0)
# --- modular_neo.py
from . import modeling_toy as toy


@toy.describe.register
def _(x: str):
    return "str"


class ToyBlock(toy.ToyBlock):
    size = 2
# --- probe
ToyBlock().run()
