# expect: E PG100 toypack/modeling_toy.py:14:1
# hint: bind it once
# --- modeling_toy.py
import functools


@functools.singledispatch
def describe(x):
    return "any"


@describe.register
def _(x: int):
    return "int"


@describe.register(str)
def _(x):
    return "str"


class ToyBlock:
    def run(self):
        return describe(1), describe("a"), describe(2.0)
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
