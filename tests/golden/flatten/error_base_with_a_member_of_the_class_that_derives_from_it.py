# reason: Python takes NeoBase.run, the flat file would take ToyModel.run
# --- parent toy/modeling_toy.py
class ToyBase:
    size = 1


class ToyModel(ToyBase):
    def run(self):
        return self.size
# --- modular toy/modular_neo.py
from .modeling_toy import ToyBase, ToyModel


class NeoBase(ToyBase):
    def run(self):
        return 3


class NeoModel(NeoBase, ToyModel):
    size = 2
# --- error
toy/modular_neo.py:9:1: PG107 NeoBase stands before ToyModel, which derives from it in the flat file, and both have run
    hint: leave the base NeoBase out, and define run in NeoModel
