"""A metaclass stays, from the nearest class that states one."""
# --- bases
class Meta(type):
    def hello(cls):
        return cls.__name__
class Base:
    pass
# --- parent
class P(Base, metaclass=Meta):
    pass
# --- modular
class C(P):
    x = 1
# --- flat
class C(Base, metaclass=Meta):
    x = 1
# --- probe
print(C.hello(), C.x)
