"""A decorator that patchgen does not know may do anything."""
# --- bases
def register(cls):
    return cls
class Base:
    pass
# --- parent
@register
class P(Base):
    pass
# --- modular
class C(P):
    pass
# --- error
# parent.py:1:1: PG220 P is decorated with register, of which patchgen knows nothing
#     hint: decorate C with it too, in the same words
