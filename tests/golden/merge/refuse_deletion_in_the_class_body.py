"""`del i` in a class body leaves the inherited i visible."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    i = 7
# --- modular
class C(P):
    for i in range(3):
        pass
    del i
# --- error
# modular.py:4:5: PG202 i is deleted in the class body, where the parent's i would be meant too
#     hint: give it another name
