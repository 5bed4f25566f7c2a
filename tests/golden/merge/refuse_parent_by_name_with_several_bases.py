"""`Parent.m` of what a parent with several bases inherits: the order of its bases is not looked for."""
# --- bases
class Base:
    def m(self):
        return 1
# --- parent
class G:
    pass
class P(G, Base):
    pass
# --- modular
class C(P):
    def m(self):
        return P.m(self)
# --- error
# modular.py:3:16: PG212 P.m is inherited from outside the classes that are merged
#     hint: write super().m
