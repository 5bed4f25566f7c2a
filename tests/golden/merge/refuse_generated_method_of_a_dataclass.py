"""`__repr__` is generated for the child, and `super().__init__` means a generated method."""
# --- bases
from dataclasses import dataclass
class Base:
    pass
# --- parent
@dataclass
class P(Base):
    a: int = 1
    def __repr__(self):
        return "P"
# --- modular
@dataclass
class C(P):
    b: int = 2
# --- error
# parent.py:4:5: PG224 __repr__ of P is hidden by the one that is generated for C
#     hint: write __repr__ in C
