"""Keywords go to the making of one class."""
# --- bases
class Base:
    def __init_subclass__(cls, kind=None):
        cls.kind = kind
# --- parent
class P(Base, kind="p"):
    pass
# --- modular
class C(P):
    pass
# --- error
# parent.py:1:15: PG221 P is made with kind='p', which its child does not say
#     hint: write kind='p' in the child too
