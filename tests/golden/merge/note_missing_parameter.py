"""The parent's method has a parameter that the override does not take."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x, mask=None, *, cache=None):
        return x
    def other(self, x, y):
        return x
# --- modular
class C(P):
    def forward(self, x, mask=None):
        return x + 1
    def other(self, x, **kwargs):
        return x
# --- flat
class C(Base):
    def forward(self, x, mask=None):
        return x + 1
    def other(self, x, **kwargs):
        return x
# note: C.forward does not take cache, which P.forward takes
# --- probe
print(C().forward(1))
