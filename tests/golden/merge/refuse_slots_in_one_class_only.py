"""A class without `__slots__` gives its objects a dictionary."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    __slots__ = ("a",)
# --- modular
class C(P):
    b = 1
# --- error
# modular.py:1:1: PG240 C has no literal __slots__, but another class that is merged has
#     hint: write __slots__ as a tuple of strings in both, or in none
