"""`return super().forward(x)` at the end takes the parent's statements, early returns included."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x, mask=None):
        if mask is None:
            return x
        y = x + mask
        return y
# --- modular
class C(P):
    def forward(self, x, mask=None):
        x = x * 2
        return super().forward(x, mask=mask)
# --- flat
class C(Base):
    def forward(self, x, mask=None):
        x = x * 2
        if mask is None:
            return x
        y = x + mask
        return y
# --- probe
print(C().forward(1), C().forward(1, 5))
