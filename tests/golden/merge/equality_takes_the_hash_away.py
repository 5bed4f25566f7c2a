"""Python sets `__hash__` to None where a class has `__eq__` alone."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def __hash__(self):
        return 1
# --- modular
class C(P):
    def __eq__(self, other):
        return True
# --- flat
class C(Base):
    __hash__ = None
    def __eq__(self, other):
        return True
# --- probe
try:
    print(hash(C()))
except TypeError as error:
    print("unhashable")
