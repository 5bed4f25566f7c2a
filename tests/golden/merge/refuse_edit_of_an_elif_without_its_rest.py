"""The branches below an `elif` are part of it, and the message says so."""
# --- parent
class P:
    def f(self, x):
        if x == 1:
            return "a"
        elif x == 2:
            return "b"
        else:
            return "c"
# --- modular
from patchgen.edits import edit, new, old
class C(P):
    @edit("f")
    def a(self, x):
        with old:
            if x == 2:
                return "b"
        with new:
            pass
# --- error
# modular.py:5:9: PG301 `with old:` does not occur in P.f
#     hint: the nearest is parent.py:5:9; an elif matches only together with the branches below it
#           if x == 2:
#               return 'b'
#         + else:
#         +     return 'c'
