# --- parent toy/modeling_toy.py
LIMIT = 3


class ToyA:
    def run(self, x):
        return min(x, LIMIT)
# --- modular toy/modular_toy_fast.py
from .modeling_toy import ToyA

LIMIT = 4
# --- error
toy/modular_toy_fast.py:1:27: PG100 ToyA is imported, and nothing reads it: this is not in the language of modular files
    hint: leave it out, or read what it defines
