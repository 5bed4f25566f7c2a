"""An annotation in a class that is not decorated is no field; in the flat class it would be one."""
# --- bases
from dataclasses import dataclass
class Base:
    pass
# --- parent
@dataclass
class P(Base):
    a: int = 1
# --- modular
class C(P):
    b: int = 2
    a = 3
# --- error
# modular.py:2:5: PG223 b is annotated in C, which is not decorated as P is
#     hint: decorate both alike, so that it is a field in both or in none
# modular.py:3:5: PG223 a does not change the default of the field a of P
#     hint: write a: int = ...
