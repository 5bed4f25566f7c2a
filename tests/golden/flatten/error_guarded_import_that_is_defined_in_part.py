# --- parent toy/modeling_toy.py
try:
    from fast import one, two
except ImportError:
    two = None
    one = None


class ToyA:
    def run(self, x):
        return one(x) + two(x)
# --- modular toy/modular_toy_slow.py
from . import modeling_toy as toy

one = None


class ToyA(toy.ToyA):
    def stop(self):
        return one
# --- error
toy/modular_toy_slow.py:1:15: PG118 the statement binds one, two; the modular file declares one but not two (at toy/modeling_toy.py:1:1)
    hint: declare all of them, or none
