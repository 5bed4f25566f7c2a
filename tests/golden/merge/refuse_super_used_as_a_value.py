"""Where `super()` is handed on, no name says what is wanted."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def f(self, x):
        return x
# --- modular
class C(P):
    def f(self, x):
        parent = super()
        get = getattr(super(), "f")
        super().x = 1
        return parent.f(x) + get(x)
# --- error
# modular.py:3:18: PG210 super is used otherwise than as super().name
#     hint: call it without arguments, and use an attribute of it: super().name
# modular.py:4:23: PG210 super is used otherwise than as super().name
#     hint: call it without arguments, and use an attribute of it: super().name
