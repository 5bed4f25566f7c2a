"""The decorator sets `has_gate` after `__init__`; a forward that reads it needs the decorator."""
# --- bases
def use_experts_implementation(cls):
    return cls
class Base:
    pass
# --- parent
@use_experts_implementation
class P(Base):
    def __init__(self, config):
        self.n = 1
    def forward(self, x):
        return x
# --- modular
class C(P):
    def forward(self, x):
        return x * self.has_gate
# --- error
# parent.py:1:1: PG225 P is decorated with use_experts_implementation, which sets has_gate; the class has its own forward and may still need that
#     hint: decorate C with it too, or set has_gate in __init__
