# expect: E PG100 toypack/modeling_toy.py:3:9
# hint: give it one underscore
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
