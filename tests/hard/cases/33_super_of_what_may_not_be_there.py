# expect: R
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    def run(self, x):
        return x
# --- modular_toy_fast.py
import contextlib

from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def walk(self, x):
        try:
            return super().walk(x)
        except AttributeError:
            return -x

    def leap(self, x):
        with contextlib.suppress(AttributeError):
            return super().leap(x)
        return x * 3
# --- probe
ToyBlock().walk(3)
ToyBlock().leap(3)
