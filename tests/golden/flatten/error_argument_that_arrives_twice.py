# reason: a keyword of the parent's caller is what the override takes by position, whatever its `**kwargs` hold
# --- parent toy/modeling_toy.py
class ToyLayer:
    def forward(self, x, mask=None, **kwargs):
        return x * mask


class ToyModel:
    def __init__(self):
        self.layer = ToyLayer()

    def forward(self, x, mask, **kwargs):
        return self.layer(x, mask=mask, **kwargs)
# --- modular toy/modular_toy_fast.py
from . import modeling_toy as toy


class ToyLayer(toy.ToyLayer):
    def forward(self, mask, x=None, **kwargs):
        return super().forward(x, mask, **kwargs) * 2
# --- error
toy/modular_toy_fast.py:5:5: PG406 the call self.layer(x, mask=mask, **kwargs) does not fit: ToyLayer.forward gets mask twice (at toy/modeling_toy.py:11:1)
    hint: change the call, or keep the parameters that it passes
