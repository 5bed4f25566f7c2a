"""`Parent.m(x)` of a static method, in one that overrides it, in a nested function and elsewhere."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    @staticmethod
    def add(a, b):
        return a + b

    @staticmethod
    def half(a):
        return a / 2
# --- modular
class C(P):
    @staticmethod
    def add(a, b=3):
        return P.add(a, b) * 10

    def run(self, values):
        return [P.add(value, P.half(value)) for value in values]
# --- flat
class C(Base):
    @staticmethod
    def add(a, b=3):
        return C._add_of_P(a, b) * 10

    @staticmethod
    def _add_of_P(a, b):
        return a + b

    @staticmethod
    def half(a):
        return a / 2

    def run(self, values):
        return [C._add_of_P(value, C.half(value)) for value in values]
# --- probe
print(C.add(1), C().add(1, 2), C.half(3), C().run([2, 4]))
