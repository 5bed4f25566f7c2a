"""`super()` inside what was inlined or hoisted is resolved at its own place in the chain."""
# --- bases
class Base:
    def forward(self, x):
        return [x]
# --- parent
class G(Base):
    def __init__(self, a):
        self.a = a

    def forward(self, x):
        return super().forward(x) + ["g"]

class P(G):
    def __init__(self, a, b):
        super().__init__(a)
        self.b = b

    def forward(self, x):
        return super().forward(x) + ["p"]
# --- modular
class C(P):
    def __init__(self, a, b):
        super().__init__(a, b)
        self.c = a + b

    def forward(self, x):
        out = super().forward(x)
        return out + ["c"]
# --- flat
class C(Base):
    def __init__(self, a, b):
        self.a = a
        self.b = b
        self.c = a + b

    def forward(self, x):
        out = self._forward_of_P(x)
        return out + ["c"]

    def _forward_of_G(self, x):
        return super().forward(x) + ["g"]

    def _forward_of_P(self, x):
        return self._forward_of_G(x) + ["p"]
# --- probe
print(vars(C(1, 2)), C().forward(0) if False else C(1, 2).forward(0))
