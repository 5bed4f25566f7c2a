# reason: type parameters are not in the language, of the modular file and of what is merged alike
# python: 3.12
# --- parent toy/modeling_toy.py
class ToyBlock[T]:
    def run(self, x: T) -> T:
        return x


class ToyPlain:
    pass
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyBlock[S](toy.ToyBlock[S]):
    def run(self, x: S) -> S:
        return super().run(x)


class ToyPlain[T: int](toy.ToyPlain):
    size: T
# --- error
toy/modeling_toy.py:1:1: PG100 type parameters: this is not in the language of modular files
    hint: derive from typing.Generic
toy/modular_toy_fast.py:4:1: PG100 type parameters: this is not in the language of modular files
    hint: derive from typing.Generic
toy/modular_toy_fast.py:4:19: PG100 the base toy.ToyBlock[S]: this is not in the language of modular files
    hint: derive from a class by its name
toy/modular_toy_fast.py:9:1: PG100 type parameters: this is not in the language of modular files
    hint: derive from typing.Generic
