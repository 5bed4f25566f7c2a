"""The child says what stands on the flat class."""
# --- bases
def register(cls):
    cls.registered = True
    return cls
class Base:
    pass
# --- parent
@register
class P(Base):
    pass
# --- modular
@register
class C(P):
    x = 1
# --- flat
@register
class C(Base):
    x = 1
# --- probe
print(C.registered, C.x)
