# expect: E PG100 toypack/modeling_toy.py:2:5
# hint: import it at the top level, without a condition
# --- fast.py
def act():
    return 1
# --- modeling_toy.py
try:
    from .fast import act
except ImportError:
    act = None


class ToyBlock:
    def run(self):
        return act()
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    size = 2
