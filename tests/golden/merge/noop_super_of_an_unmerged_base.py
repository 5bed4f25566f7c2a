"""What no merged class has is still asked of the bases."""
# --- bases
class Base:
    def __init__(self):
        self.base = 1
    def extra_repr(self):
        return "base"
# --- parent
class P(Base):
    def __init__(self):
        super().__init__()
    def forward(self):
        return self.extra_repr()
# --- modular
class C(P):
    def extra_repr(self):
        return super().extra_repr() + " c"
# --- flat
class C(Base):
    def __init__(self):
        super().__init__()
    def forward(self):
        return self.extra_repr()
    def extra_repr(self):
        return super().extra_repr() + " c"
# --- probe
print(C().forward(), vars(C()))
