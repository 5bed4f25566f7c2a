"""Keys that the child adds are required, unless it says otherwise."""
# --- bases
from typing import TypedDict
# --- parent
class P(TypedDict, total=False):
    a: int
# --- modular
class C(P):
    b: int
# --- error
# parent.py:1:20: PG221 P is made with total=False, which its child does not say
#     hint: write total=False in the child too
