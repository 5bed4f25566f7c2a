"""A comprehension in a class body does not see the class body's names, nor does a class inside it."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    size = len("abc")
# --- modular
class C(P):
    sizes = [P.size for _ in range(2)]
    class Inner:
        size = P.size
# --- error
# modular.py:2:5: PG210 a parent that is merged is named where the flat class is not made yet
#     hint: bind what is needed of it to a name of the class body
# modular.py:3:5: PG210 a parent that is merged is named where the flat class is not made yet
#     hint: bind what is needed of it to a name of the class body
