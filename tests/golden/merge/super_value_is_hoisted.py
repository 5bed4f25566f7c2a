"""`super().forward(x)` used as a value."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x):
        """Doc of P's."""
        if x > 2:
            return 1
        # a comment
        return x + 1

    def other(self):
        return 0
# --- modular
class C(P):
    def forward(self, x):
        out = super().forward(x)
        return out * 2
# --- flat
class C(Base):
    def forward(self, x):
        out = self._forward_of_P(x)
        return out * 2

    def _forward_of_P(self, x):
        """Doc of P's."""
        if x > 2:
            return 1
        # a comment
        return x + 1

    def other(self):
        return 0
# --- probe
print([C().forward(x) for x in range(5)], C().other())
