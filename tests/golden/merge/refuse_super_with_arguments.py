"""`super(Child, self)`, and `super(Parent, self)`."""
# --- bases
class Base:
    pass
# --- parent
class G(Base):
    def f(self):
        return "g"

class P(G):
    def f(self):
        return "p" + super(P, self).f()
# --- modular
class C(P):
    def f(self):
        return "c" + super(C, self).f() + super(P, self).f()
# --- error
# modular.py:3:22: PG210 super is used otherwise than as super().name
#     hint: call it without arguments, and use an attribute of it: super().name
# modular.py:3:43: PG210 super is used otherwise than as super().name
#     hint: call it without arguments, and use an attribute of it: super().name
# modular.py:3:49: PG210 a parent that is merged into the class is used as a value
#     hint: call one of its methods: Parent.method(self)
