# expect: E PG100 toypack/modeling_toy.py:4:5
# hint: write a class that does without it
# classes: NeoBlock
# --- modeling_toy.py
class Kinds:
    known = []

    def __init_subclass__(cls):
        Kinds.known.append(cls.__name__)


class First(Kinds):
    pass


class Second(First):
    pass


class ToyBlock:
    def run(self):
        return Kinds.known
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
# --- probe
NeoBlock().run()
