"""A parent's attribute that reads another one, which the child overrides."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    size = 2
    double = size * 2

    def f(self, n=size):
        return n
# --- modular
class C(P):
    size = 5
# --- error
# parent.py:3:5: PG201 P reads the size above it in its class body and would read C's size
#     hint: give one of them another name, or write the value out
# parent.py:5:5: PG201 P reads the size above it in its class body and would read C's size
#     hint: give one of them another name, or write the value out
