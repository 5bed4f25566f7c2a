# expect: R
# --- other.py
CACHE = {}


class Other:
    def names(self):
        return sorted(CACHE)
# --- modeling_toy.py
CACHE = {}


class ToyBlock:
    def put(self, key):
        CACHE[key] = 1
# --- modular_neo.py
from .modeling_toy import ToyBlock
from .other import Other


class NeoBlock(Other, ToyBlock):
    pass
