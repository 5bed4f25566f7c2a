"""A cached property, a value that would be made twice, `__new__`."""
# --- bases
from functools import cached_property
class Base:
    pass
def make():
    return []
# --- parent
class P(Base):
    @cached_property
    def size(self):
        return 2

    items = make()

    def __new__(cls):
        return super().__new__(cls)
# --- modular
class C(P):
    @cached_property
    def size(self):
        return super().size + 1

    def g(self):
        return super().items

    def __new__(cls):
        return super().__new__(cls)
# --- error
# modular.py:4:16: PG214 size of P cannot be kept under a private name: its decorator stores under the name that it has
#     hint: write size out in the child
# modular.py:7:16: PG214 items of P cannot be kept under a private name: its value would be made twice
#     hint: write items out in the child
# modular.py:10:16: PG214 __new__ of P cannot be kept under a private name: Python knows it by its name
#     hint: write __new__ out in the child
