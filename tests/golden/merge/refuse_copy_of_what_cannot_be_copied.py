"""A member under `if`, a cached property, a value that would be made twice."""
# --- bases
from functools import cached_property
class Base:
    pass
def make():
    return []
# --- parent
NEW = True
class P(Base):
    if NEW:
        def f(self):
            return 1

    @cached_property
    def size(self):
        return 2

    items = make()

    a = b = make()
# --- modular
class C(P):
    def f(self):
        return super().f() + 1

    @cached_property
    def size(self):
        return super().size + 1

    def g(self):
        return super().items, super().a
# --- error
# modular.py:3:16: PG214 f of P cannot be kept under a private name: it is not bound in every case
#     hint: write f out in the child
# modular.py:7:16: PG214 size of P cannot be kept under a private name: its decorator stores under the name that it has
#     hint: write size out in the child
# modular.py:10:16: PG214 items of P cannot be kept under a private name: its value would be made twice
#     hint: write items out in the child
# modular.py:10:31: PG214 a of P cannot be kept under a private name: it is bound together with other names
#     hint: write a out in the child
