"""One statement binds two names, of which one is to go."""
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
# modular.py:2:5: PG230 a cannot be removed alone: P binds it together with something else
#     hint: override what is bound with it
