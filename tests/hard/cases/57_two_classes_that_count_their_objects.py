# expect: E PG401 toypack/other.py:1:1
# hint: define Made
# --- other.py
class Made:
    count = 0

    def __init__(self):
        type(self).count += 1


class Other:
    def other(self):
        return Made()
# --- modeling_toy.py
class Made:
    count = 0

    def __init__(self):
        type(self).count += 1


class ToyBlock:
    def own(self):
        return Made()
# --- modular_neo.py
from .modeling_toy import ToyBlock
from .other import Other


class NeoBlock(ToyBlock):
    pass


class NeoOther(Other):
    pass
