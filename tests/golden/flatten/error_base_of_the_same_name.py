# reason: a name that the file imports cannot also be the class that derives from it
# --- parent toy/modeling_toy.py
class ToyA:
    size = 1
# --- modular toy/modular_toy_fast.py
from .modeling_toy import ToyA


class ToyA(ToyA):
    size = 2
# --- error
toy/modular_toy_fast.py:4:1: PG100 ToyA is bound here and on line 1: this is not in the language of modular files
    hint: bind it once; import what it takes the place of under another name
