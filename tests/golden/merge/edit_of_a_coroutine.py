"""An edit with `await`, `async for` or `async with` in it is an `async def`."""
# --- parent
class P:
    async def f(self, xs):
        total = 0
        async for x in xs():
            total += await self.g(x)
        return total
    async def g(self, x):
        return x
# --- modular
from patchgen.edits import Hole, edit, new, old
class C(P):
    @edit("f")
    async def a(self, xs, x, total):
        with old:
            async for x in xs():
                total += await self.g(x)
        with new:
            total = sum([await self.g(x) async for x in xs()])
    @edit("g")
    async def b(self, x):
        with old:
            return x
        with new:
            return 2 * x
# --- flat
class C:
    async def f(self, xs):
        total = 0
        total = sum([await self.g(x) async for x in xs()])
        return total
    async def g(self, x):
        return 2 * x
# --- edited
class P:
    async def f(self, xs):
        total = 0
        total = sum([await self.g(x) async for x in xs()])
        return total
    async def g(self, x):
        return 2 * x
# --- probe
import asyncio
async def three():
    for x in range(3):
        yield x
print(asyncio.run(C().f(three)))
