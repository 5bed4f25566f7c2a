"""A removal and a definition of one name: an error that names both."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def f(self):
        return 1
# --- modular
class C(P):
    def f(self):
        raise AttributeError("no f")

    def f(self):
        return 2
# --- error
# modular.py:2:5: PG303 f is removed here and bound on line 5
#     hint: keep one of them
# modular.py:5:5: PG303 f is defined here and on line 2
#     hint: keep one of them
