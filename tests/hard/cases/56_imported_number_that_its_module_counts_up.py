# expect: E PG132 toypack/modular_neo.py:6:16
# hint: <module>.COUNT
# --- modeling_toy.py
COUNT = 0


def bump():
    global COUNT
    COUNT += 1


class ToyBlock:
    def run(self):
        bump()
# --- modular_neo.py
from .modeling_toy import COUNT, ToyBlock


class NeoBlock(ToyBlock):
    def count(self):
        return COUNT
