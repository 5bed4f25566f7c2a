"""A method that raises an error about its arguments is a method, and removes nothing."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def __getattr__(self, name):
        return 1
    def find(self, name):
        return name
# --- modular
class C(P):
    def __getattr__(self, name):
        raise AttributeError(name)
    def find(self, name):
        raise AttributeError(f"no {name}")
# --- flat
class C(Base):
    def __getattr__(self, name):
        raise AttributeError(name)
    def find(self, name):
        raise AttributeError(f"no {name}")
