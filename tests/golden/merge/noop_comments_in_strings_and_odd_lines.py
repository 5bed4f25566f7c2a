"""Backslashes, strings over lines, a form feed, non-ASCII text and nested quotes stay byte for byte."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    naïve = "ü # no comment"  # größe
    total = 1 + \
        2
    text = """
# not a comment
    def f(self): pass
"""

    def f(self, x="é"):
        return f"{x!r}: {self.naïve}" \
            "end"
# --- modular
class C(P):
    def g(self):
        return super().f("ö") + super().f()
# --- flat
class C(Base):
    naïve = "ü # no comment"  # größe
    total = 1 + \
        2
    text = """
# not a comment
    def f(self): pass
"""

    def f(self, x="é"):
        return f"{x!r}: {self.naïve}" \
            "end"
    def g(self):
        return C.f(self, "ö") + C.f(self)
# --- probe
print(C().g(), C.total, C.text)
