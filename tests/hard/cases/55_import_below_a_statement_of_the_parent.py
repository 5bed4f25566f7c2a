# expect: E PG100 toypack/modeling_toy.py:4:1
# hint: assign a value to a plain name or an item of it,
# --- modeling_toy.py
import sys
import types

sys.modules["made_up_by_toy"] = types.SimpleNamespace(FLAG="on", Base=object)
from made_up_by_toy import Base, FLAG


class ToyBlock(Base):
    flag = FLAG
# --- modular_neo.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    size = 2
