# expect: E PG100 toypack/modeling_toy.py:6:6
# hint: write out what it gives
# classes: ToyBlock, ToyHead, ToyModel
# overrides: ToyBlock, ToyModel
# --- modeling_toy.py
def early(function):
    return function


class ToyBlock:
    @early
    def run(self, x=len("abc")):
        return x


class ToyHead(ToyBlock):
    kind = "head"


class ToyModel:
    blocks = (ToyBlock, ToyHead)

    def run(self):
        return [block().run() for block in self.blocks]
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyModel(toy.ToyModel):
    extra = toy.ToyHead

    def run(self, start=sum([1, 2])):
        return super().run(), start, self.extra.kind, Tail.size


class Tail:
    size = 4


def late(function):
    return lambda self, x=Tail.size: function(self, x) * 2


class ToyBlock(toy.ToyBlock):
    @late
    def run(self, x):
        return super().run(x)
# --- oracle modular_toy_fast.py
from .modeling_toy import ToyBlock, ToyHead, ToyModel
# --- oracle modeling_toy.py
def early(function):
    return function


class Tail:
    size = 4


def late(function):
    return lambda self, x=Tail.size: function(self, x) * 2


class _Block:
    @early
    def run(self, x=len("abc")):
        return x


class ToyBlock(_Block):
    @late
    def run(self, x):
        return super().run(x)


class ToyHead(ToyBlock):
    kind = "head"


class _Model:
    blocks = (ToyBlock, ToyHead)

    def run(self):
        return [block().run() for block in self.blocks]


class ToyModel(_Model):
    extra = ToyHead

    def run(self, start=sum([1, 2])):
        return super().run(), start, self.extra.kind, Tail.size
# --- probe
ToyModel().run()
ToyBlock().run()
ToyHead().run()
