"""`Parent.keys` in the class body is taken over where it is a literal, and refused elsewhere."""
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
# --- modular
class C(P):
    keys = P.keys + ["b"]
    table = {**P.table, "b": 2}
    g = P.f
# --- error
# modular.py:3:16: PG212 a parent that is merged is named in the class body, where no class is made yet
#     hint: write the value out, as it is no literal
# modular.py:4:9: PG212 a parent that is merged is named in the class body, where no class is made yet
#     hint: write the value out, as it is no literal
