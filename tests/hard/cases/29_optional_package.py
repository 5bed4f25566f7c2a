# expect: R
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
try:
    import not_there_at_all as fast
    from not_there_at_all import kernel
except ImportError:
    fast = kernel = None
finally:
    CHECKED = True


class ToyBlock:
    def run(self, x):
        return x if fast is None else kernel(x)
# --- modular_toy_fast.py
import importlib.util

from . import modeling_toy as toy

if importlib.util.find_spec("not_there_at_all") is not None:
    from not_there_at_all import other_kernel
else:

    def other_kernel(x):
        return x * 2


class ToyBlock(toy.ToyBlock):
    def run(self, x):
        return super().run(other_kernel(x))
# --- probe
ToyBlock().run(3)
CHECKED
