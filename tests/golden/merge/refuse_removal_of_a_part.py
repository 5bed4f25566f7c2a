"""One name of `a = b = 1` cannot be removed alone, nor kept under a private name."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    a = b = 1
# --- modular
class C(P):
    a = AttributeError()
# --- error
# modular.py:2:5: PG230 a cannot be removed alone: it is bound together with something else
#     hint: override what is bound with it
