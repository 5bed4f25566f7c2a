"""`__class__` in a parent's method means the parent."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def f(self):
        return __class__.__name__
# --- modular
class C(P):
    pass
# --- error
# parent.py:3:16: PG210 __class__ names a class that is merged into another
#     hint: write type(self), or name the class
