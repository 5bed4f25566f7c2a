"""`__init_subclass__` ran when the child was made."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def __init_subclass__(cls):
        cls.registered = True
# --- modular
class C(P):
    pass
# --- error
# parent.py:2:5: PG222 P.__init_subclass__ runs when its child is made, and would not any more
#     hint: write what it does in the child, or keep the parent as an imported base
