# reason: callers pass what the release calls otherwise than the override, which hands it on by position
# --- parent toy/modeling_toy.py
from torch import nn
from transformers.utils.deprecation import deprecate_kwarg


class ToyA(nn.Module):
    @deprecate_kwarg("past", "6.0", new_name="cache")
    def forward(self, x, cache=None, **kwargs):
        return cache.update(x)


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = ToyA()

    def forward(self, x, cache):
        return self.a(x, cache=cache)
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyA(toy.ToyA):
    def forward(self, x, past=None, **kwargs):
        return super().forward(x, past, **kwargs) * 2
# --- error
toy/modular_toy_fast.py:5:1: PG406 the call super().forward(x, past, **kwargs) does not fit: ToyA.forward gets cache twice, here and from the caller of ToyA.forward, which passes cache=
    hint: give ToyA.forward the parameter cache
toy/modular_toy_fast.py:5:5: PG413 ToyA.forward takes past, which toy.modeling_toy.ToyA.forward calls cache: its callers pass cache=
    hint: call the parameter cache, here and where it is passed on
