"""`super().forward(x)` used as a value: the copy has no decorator that documents a public method."""
# --- bases
def auto_docstring(method):
    return method
class Base:
    pass
# --- parent
class P(Base):
    @auto_docstring
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
