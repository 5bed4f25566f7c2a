"""The first would be ignored without a word."""
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
        return 2

    def g(self):
        return 3

    def f(self):
        return 4
# --- error
# modular.py:8:5: PG303 f is defined here and on line 2
#     hint: keep one of them
