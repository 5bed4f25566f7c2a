"""`super().forward` means the wrapped forward, with or without the decorator on the child."""
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
@use_experts_implementation
class C(P):
    def forward(self, x):
        return super().forward(x) * 2
# --- error
# parent.py:1:1: PG225 P is decorated with use_experts_implementation, and super().forward means the forward that it wraps
#     hint: write out what the parent's forward does
