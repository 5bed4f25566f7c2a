"""The child's annotation means the global `list`; in the flat class it would be the parent's method."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def list(self):
        return [1]
# --- modular
class C(P):
    def f(self, names: list = list(range(2))):
        return names
# --- error
# modular.py:2:5: PG201 C reads a global list in its class body and would read P's list
#     hint: give one of them another name, or write the value out
