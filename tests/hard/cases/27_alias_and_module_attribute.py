# expect: R
# classes: ToyBlock, ToyHead
# overrides: ToyBlock, ToyHead
# --- modeling_toy.py
class ToyBlock:
    def run(self, x):
        return x


class ToyHead:
    def run(self, x):
        return -x
# --- modular_toy_fast.py
import toypack.modeling_toy as upstream
from toypack.modeling_toy import ToyBlock as Base


class ToyBlock(Base):
    def run(self, x):
        return super().run(x) + 1


class ToyHead(upstream.ToyHead):
    def run(self, x):
        return super().run(x) - 1
# --- probe
ToyBlock().run(1)
ToyHead().run(1)
