"""Before Python 3.12 an f-string is one token: a private name in it that is text as well cannot be told apart."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def f(self):
        return f"__x is {self.__x}"
# --- modular
class C(P):
    pass
# --- error
# parent.py:3:16: PG241 __x stands in an f-string both as a name and as text
#     hint: bind it to a name first
