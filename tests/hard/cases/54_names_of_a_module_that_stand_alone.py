# expect: E PG100 toypack/modeling_toy.py:3:1
# hint: assign a value to a plain name or an item of it,
# classes: NeoBlock
# --- modeling_toy.py
import os

os.environ.setdefault("PATCHGEN_TOY", "on")


def _unused():
    raise RuntimeError


class ToyBlock:
    def run(self):
        return os.environ.get("PATCHGEN_TOY")
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
# --- probe
NeoBlock().run()
