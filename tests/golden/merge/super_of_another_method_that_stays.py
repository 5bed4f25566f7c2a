"""`super().other()` of a method that nobody overrides: the flat class has it itself."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def other(self, x=1):
        return x
    def forward(self, x):
        return x
# --- modular
class C(P):
    def forward(self, x):
        return super().other() + super().other(x) + super().other(x=3)
# --- flat
class C(Base):
    def other(self, x=1):
        return x
    def forward(self, x):
        return C.other(self) + C.other(self, x) + C.other(self, x=3)
# --- probe
class D(C):
    def other(self, x=1):
        return 100
print(C().forward(2), D().forward(2))
