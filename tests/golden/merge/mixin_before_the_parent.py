"""A mixin's `super()` goes on to the parent, in the order of Python's MRO."""
# --- bases
class Base:
    pass
# --- parent
class Mixin:
    flag = True
    def forward(self, x):
        return super().forward(x + 1)

class P(Base):
    flag = False
    def forward(self, x):
        return x * 2
# --- modular
class C(Mixin, P):
    pass
# --- flat
class C(Base):
    flag = True
    def forward(self, x):
        x = x + 1
        return x * 2
# --- probe
print(C().forward(3), C.flag, [c.__name__ for c in C.__mro__ if c.__name__ == "Base"])
