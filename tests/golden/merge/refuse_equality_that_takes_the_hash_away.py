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
# --- error
# modular.py:2:5: PG224 C has __eq__ without __hash__, which its parent has
#     hint: write __hash__ too
