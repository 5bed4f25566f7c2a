# expect: R
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    async def items(self, n):
        for i in range(n):
            yield i

    async def total(self, n):
        return sum([i async for i in self.items(n) if i])
# --- modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    async def items(self, n):
        async for i in super().items(n):
            yield i * 2

    async def total(self, n):
        return await super().total(n) + sum([i async for i in super().items(n)])
# --- probe
run(ToyBlock().items(3))
run(ToyBlock().total(4))
