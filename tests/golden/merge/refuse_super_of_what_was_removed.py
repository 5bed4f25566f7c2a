"""A class further down asks for what its parent took away."""
# --- bases
class Base:
    pass
# --- parent
class G(Base):
    def f(self):
        return 1
class P(G):
    def f(self):
        raise AttributeError("no f")
# --- modular
class C(P):
    def f(self):
        return super().f()
# --- error
# modular.py:3:16: PG231 super().f has been removed by P
#     hint: leave the call out
