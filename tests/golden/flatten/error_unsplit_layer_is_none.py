# reason: a layer that is named for placing is one of the flat file; the parent's own list, and a class that is imported, are not asked
# --- parent toy/modeling_toy.py
from elsewhere import Far


class ToyLayer:
    pass


class ToyBlock:
    _no_split_modules = ["ToyLayer", "Gone"]

    def __init__(self):
        self.layer = ToyLayer()
        self.far = Far()
# --- modular toy/modular_neo.py
from . import modeling_toy as toy


class NeoBlock(toy.ToyBlock):
    pass


class NeoHead(toy.ToyBlock):
    _no_split_modules: list[str] = ["ToyLayr", "NeoLayer", "Far"]
# --- error
toy/modular_neo.py:9:1: PG409 _no_split_modules names ToyLayr, and the flat file has no such class
    hint: did you mean NeoLayer?
