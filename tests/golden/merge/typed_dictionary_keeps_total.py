"""`total=False` stays as long as the child adds no keys."""
# --- bases
from typing import TypedDict
# --- parent
class P(TypedDict, total=False):
    a: int
# --- modular
class C(P):
    pass
# --- flat
class C(TypedDict, total=False):
    a: int
# --- probe
print(sorted(C.__optional_keys__), sorted(C.__required_keys__))
