"""Both decorated alike: the parent's fields first, overridden ones in their place."""
# --- bases
from dataclasses import dataclass, field, fields
class Base:
    pass
# --- parent
@dataclass
class P(Base):
    """Doc."""

    a: int = 1
    b: list = field(default_factory=list)
    c: int = 3
# --- modular
@dataclass
class C(P):
    d: int = 4
    b: int = 2
    c: str
# --- flat
@dataclass
class C(Base):
    """Doc."""

    a: int = 1
    b: int = 2
    c: int = 3
    d: int = 4
    c: str
# --- probe
print([(f.name, f.default) for f in fields(C)], C(5))
