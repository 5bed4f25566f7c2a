# expect: E PG100 toypack/modular_neo.py:5:1
# hint: bind it once
# --- modeling_toy.py
def act():
    return 1


class ToyBlock:
    pass
# --- modular_neo.py
import functools

from .modeling_toy import act, ToyBlock

act = functools.cache(act)


class NeoBlock(ToyBlock):
    def run(self):
        return act()
