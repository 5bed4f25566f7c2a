"""A child without fields of its own takes over the parent's dataclass."""
# --- bases
from dataclasses import dataclass, fields
class Base:
    pass
# --- parent
@dataclass
class P(Base):
    a: int = 1
# --- modular
class C(P):
    def double(self):
        return self.a * 2
# --- flat
@dataclass
class C(Base):
    a: int = 1
    def double(self):
        return self.a * 2
# --- probe
print(C(4).double(), C(1) == C(1), [f.name for f in fields(C)])
