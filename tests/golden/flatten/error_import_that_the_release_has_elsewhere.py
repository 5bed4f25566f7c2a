# reason: what moved inside transformers is found in its general modules, by its name
# --- parent transformers/__init__.py
# --- parent transformers/layers.py
class CheckpointedLayer: ...
# --- parent transformers/cache_utils.py
class DynamicCache: ...
# --- parent toy/modeling_toy.py
class ToyA:
    def run(self, x):
        return x
# --- modular toy/modular_toy_fast.py
from transformers.cache_utils import CheckpointedLayer

from . import modeling_toy as toy


class ToyA(toy.ToyA):
    def run(self, x):
        return CheckpointedLayer(), x
# --- error
toy/modular_toy_fast.py:1:38: PG411 transformers.cache_utils has no CheckpointedLayer
    hint: import it from transformers.layers
