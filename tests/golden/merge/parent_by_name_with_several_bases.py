"""`Parent.m` of what a parent with several bases inherits: one base that stays has it."""
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
# --- flat
class C(Base):
    def m(self):
        return Base.m(self)
