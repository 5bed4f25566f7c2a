# reason: ToyBase gets a base that ToyModel has before it: Python could not make ToyModel
# --- parent toy/modeling_toy.py
class Mixin:
    pass


class ToyBase:
    pass


class ToyModel(Mixin, ToyBase):
    pass
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyBase(toy.ToyBase, toy.Mixin):
    size = 2
# --- error
toy/modular_toy_fast.py:4:1: PG107 the bases Mixin, ToyBase of ToyModel have no consistent order in the flat file (at toy/modeling_toy.py:9:1)
    hint: leave out a base that another one derives from there
