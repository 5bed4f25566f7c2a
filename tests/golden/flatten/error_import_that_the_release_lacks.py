# reason: what the release has no more is found when the text is written, and the nearest name is said
# --- parent transformers/cache_utils.py
class DynamicCache: ...
# --- parent toy/modeling_toy.py
class ToyA:
    def run(self, x):
        return x
# --- modular toy/modular_toy_fast.py
from transformers.cache_utils import DynamcCache
from transformers.cash_utils import Cache

from . import modeling_toy as toy


class ToyA(toy.ToyA):
    def run(self, x):
        return DynamcCache(), Cache(), x
# --- error
toy/modular_toy_fast.py:1:38: PG411 transformers.cache_utils has no DynamcCache
    hint: did you mean DynamicCache?
toy/modular_toy_fast.py:2:37: PG411 there is no module transformers.cash_utils
    hint: did you mean cache_utils?
