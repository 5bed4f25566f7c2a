# --- parent toy/modeling_toy.py
class ToyA:
    pass


class ToyB:
    def run(self):
        return ToyA()
# --- modular toy/modular_neo.py
from .modeling_toy import ToyA, ToyB


class NeoA(ToyA):
    size = 1


class OtherB(ToyB):
    size = 2
# --- error
toy/modular_neo.py:8:1: PG110 two prefixes for the classes of toy.modeling_toy: Toy -> Neo by class NeoA(ToyA), Toy -> Other by class OtherB(ToyB)
    hint: use one prefix, or derive the classes that need Other in a modular file of their own
