# reason: a name that the modular file binds under a condition does not take the parent's place
# --- parent toy/modeling_toy.py
"""A toy."""

from quickness import is_quick_available

if is_quick_available():
    from quick import scale
else:
    scale = None


class ToyA:
    def forward(self, x):
        return x if scale is None else scale(x)
# --- modular toy/modular_toy_fast.py
from quickness import is_quick_available

from . import modeling_toy as toy

if is_quick_available():
    from quicker import scale
else:
    scale = None


def rescale(x):
    return scale(x)


class ToyA(toy.ToyA):
    def backward(self, x):
        return rescale(x)
# --- error
toy/modular_toy_fast.py:5:1: PG401 scale is defined in toy.modeling_toy and, differently, in toy.modular_toy_fast
    hint: give the scale of this file another name
