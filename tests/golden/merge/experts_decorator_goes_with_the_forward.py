"""`use_experts_implementation` wraps the parent's forward; an override is not wrapped."""
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
        return x * self.n
# --- flat
class C(Base):
    def __init__(self, config):
        self.n = 1
    def forward(self, x):
        return x * self.n
# note: @use_experts_implementation of P is dropped: it wraps forward and __init__, and C has a forward of its own
# --- probe
print(C(None).forward(2))
