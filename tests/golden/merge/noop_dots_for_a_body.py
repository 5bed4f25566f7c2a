"""A body of `...` stays one."""
# --- bases
class Base:
    pass
class Other:
    pass
# --- parent
class P(Base, Other): ...
# --- modular
class C(P): pass
# --- flat
class C(Base, Other):
    ...
# --- probe
print([c.__name__ for c in C.__mro__ if c.__name__ != "P"])
