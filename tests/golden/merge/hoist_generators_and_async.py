"""Generators, coroutines and decorated methods are called, never written out."""
# --- bases
import functools
def twice(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args) * 2
    return call
class Base:
    pass
# --- parent
class P(Base):
    def items(self):
        yield 1
        yield 2

    async def later(self, x):
        return x

    @twice
    def value(self, x):
        return x
# --- modular
class C(P):
    def items(self):
        yield 0
        yield from super().items()

    async def later(self, x):
        return await super().later(x) + 1

    def value(self, x):
        return super().value(x)
# --- flat
class C(Base):
    def items(self):
        yield 0
        yield from self._items_of_P()

    def _items_of_P(self):
        yield 1
        yield 2

    async def later(self, x):
        return await self._later_of_P(x) + 1

    async def _later_of_P(self, x):
        return x

    def value(self, x):
        return self._value_of_P(x)

    @twice
    def _value_of_P(self, x):
        return x
# --- probe
import asyncio
print(list(C().items()), asyncio.run(C().later(1)), C().value(3))
