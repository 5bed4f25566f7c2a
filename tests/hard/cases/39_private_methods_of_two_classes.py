# expect: R
# classes: NeoBlock
# --- modeling_toy.py
class ToyBase:
    def __name(self):
        return "base"

    def base_name(self):
        return self.__name()


class ToyBlock(ToyBase):
    def __name(self):
        return "block"

    def block_name(self):
        return self.__name()
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    def __name(self):
        return "neo"

    def neo_name(self):
        return self.__name(), self.block_name(), self.base_name()
# --- probe
NeoBlock().neo_name()
