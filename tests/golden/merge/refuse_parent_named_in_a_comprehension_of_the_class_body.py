"""A comprehension in a class body does not see the class body's names."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    size = len("abc")
# --- modular
class C(P):
    sizes = [P.size for _ in range(2)]
# --- error
# modular.py:2:14: PG212 a parent that is merged is named in the class body, where no class is made yet
#     hint: write the value out
