# expect: R
# classes: NeoBlock
# --- modeling_toy.py
class ToyBlock:
    def __init__(self):
        self.__secret = 3

    def secret(self):
        return self.__secret
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    def steal(self):
        return self._ToyBlock__secret
# --- probe
NeoBlock().steal()
NeoBlock().secret()
