# expect: E PG401 toypack/other.py:4:1
# hint: define step
# --- other.py
COUNT = 0


def step():
    global COUNT
    COUNT += 1
    return COUNT


class Other:
    def other(self):
        return step()
# --- modeling_toy.py
COUNT = 0


def step():
    global COUNT
    COUNT += 1
    return COUNT


class ToyBlock:
    def own(self):
        return step()
# --- modular_neo.py
from .modeling_toy import ToyBlock
from .other import Other


class NeoBlock(ToyBlock):
    pass


class NeoOther(Other):
    pass
