# expect: E PG100 toypack/modeling_toy.py:5:5
# hint: keep the value in an object that is changed, such as a dictionary
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
