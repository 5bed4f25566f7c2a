"""A child's member takes the parent's place, above a new one that it reads."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    b = 1
    def f(self):
        return self.b
# --- modular
class C(P):
    a = 5
    b = a + 1
# --- error
# modular.py:3:5: PG201 C reads the a above it in its class body and would read a global a
#     hint: give one of them another name, or write the value out
