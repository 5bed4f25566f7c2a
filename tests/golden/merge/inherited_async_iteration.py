"""Asynchronous generators and context managers, called at their own place."""
# --- bases
import asyncio
import contextlib
class Base:
    pass
# --- parent
class P(Base):
    async def items(self, n):
        for i in range(n):
            yield i
    @contextlib.contextmanager
    def held(self, x):
        yield x
# --- modular
class C(P):
    async def items(self, n):
        async for i in super().items(n):
            yield i * 10
    def held(self, x):
        return super().held(x + 1)
# --- flat
class C(Base):
    async def items(self, n):
        async for i in self._items_of_P(n):
            yield i * 10

    async def _items_of_P(self, n):
        for i in range(n):
            yield i
    def held(self, x):
        return self._held_of_P(x + 1)

    @contextlib.contextmanager
    def _held_of_P(self, x):
        yield x
# --- probe
async def main():
    return [i async for i in C().items(3)]
with C().held(1) as held:
    print(asyncio.run(main()), held)
