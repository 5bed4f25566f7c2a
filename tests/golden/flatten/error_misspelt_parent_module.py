# --- parent toy/modeling_toy.py
class ToyAttention:
    pass
# --- modular toy/modular_toy_fast.py
from . import modelling_toy as toy


class ToyAttention(toy.ToyAttention):
    size = 2
# --- error
toy/modular_toy_fast.py:4:20: PG101 no module named toy.modelling_toy
    hint: toy has no modelling_toy; did you mean modeling_toy?
