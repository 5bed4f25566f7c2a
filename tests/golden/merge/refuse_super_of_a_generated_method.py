"""`super().__init__` means the method that `dataclass` makes for the parent."""
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
    def __init__(self):
        super().__init__(a=5)
# --- error
# modular.py:3:9: PG224 super().__init__ means the method that a decorator generates for a merged class
#     hint: write out what __init__ does
