# expect: R
# --- modeling_toy.py
def rotate(x):
    return x + 1


class ToyBlock:
    def run(self, x):
        return rotate(x)
# --- modeling_other.py
def rotate(x):
    return x + 2


class OtherHead:
    def head(self, x):
        return rotate(x)
# --- modular_neo.py
from .modeling_other import OtherHead
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock, OtherHead):
    size = 2
