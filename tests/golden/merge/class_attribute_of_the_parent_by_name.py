"""`Parent.keys` in the class body: a literal is written out, anything else stays above."""
# --- bases
class Base:
    pass
def make():
    return {"a": 1}
# --- parent
class P(Base):
    keys = ["a"]
    table = make()
    def f(self):
        return 1
    class Inner:
        x = 1
# --- modular
class C(P):
    keys = P.keys + ["b"]
    table = {**P.table, "b": 2}
    g = P.f
    class Inner(P.Inner):
        y = 2
# --- flat
class C(Base):
    keys = ["a"]
    table = make()
    def f(self):
        return 1
    class Inner:
        x = 1
    keys = keys + ["b"]
    table = {**table, "b": 2}
    g = f
    class Inner(Inner):
        y = 2
# --- probe
print(C.keys, C.table, C().g(), C.Inner.x, C.Inner.y)
