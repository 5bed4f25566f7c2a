# expect: R
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
try:
    import not_there_at_all as fast
    from not_there_at_all import kernel
except ImportError:
    fast = kernel = None


class ToyBlock:
    def run(self, x):
        return x if fast is None else kernel(x)
# --- modular_toy_fast.py
from . import modeling_toy as toy

try:
    from not_there_at_all import other_kernel
except (ImportError, ModuleNotFoundError):
    other_kernel = float


class ToyBlock(toy.ToyBlock):
    def run(self, x):
        return super().run(other_kernel(x))
# --- probe
ToyBlock().run(3)
