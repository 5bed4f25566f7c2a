"""`x = v` over `x: T = u` keeps the annotation; `x: T` over a value keeps the value."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    flag: bool = True
    size: int
    kind = "p"
    name: str
# --- modular
class C(P):
    flag = False
    size: float
    kind: str
    name: bytes = b""
# --- flat
class C(Base):
    flag: bool = False
    size: float
    kind = "p"
    name: bytes = b""
    kind: str
# --- probe
print(C.flag, C.kind, C.name, hasattr(C, "size"), sorted((k, v.__name__) for k, v in C.__annotations__.items() if k in ("size", "kind", "name")))
