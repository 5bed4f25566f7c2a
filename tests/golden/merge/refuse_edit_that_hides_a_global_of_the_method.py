"""What new code binds must not become what other code of the method reads: a global, an outer local, or a hole's own."""
# --- parent
class P:
    def assigned(self, x):
        y = x
        return scale(y)
    def closed_over(self, x):
        count = 0
        def inner(y):
            z = count
            return y + z
        return inner(x)
    def into_a_comprehension(self, x):
        return x + 1
    def into_a_function(self, x):
        y = x
        y += x
        return y
    def arguments(self, x):
        return self.f(1, x)
# --- modular
from patchgen.edits import Hole, edit, new, old
class C(P):
    @edit("assigned")
    def a(self, x, y):
        with old:
            y = x
        with new:
            scale = 2
            y = x * scale
    @edit("closed_over")
    def c(self, y, z):
        with old:
            return y + z
        with new:
            count = y + z
            return count
    @edit("into_a_comprehension")
    def d(self, e: Hole):
        with old:
            return e
        with new:
            return [e for x in range(3)]
    @edit("into_a_function")
    def f(self, x, y):
        with old:
            y = x
            ...
            return y
        with new:
            def inner(x):
                ...
            return inner(x)
    @edit("arguments")
    def g(self):
        with old:
            self.f(1, ...)
        with new:
            [self.f(1, ...) for x in range(3)]
# --- error
# modular.py:8:13: PG309 scale of P.assigned would be the scale that a binds under `with new:`
#     hint: give scale under `with new:` another name
# modular.py:15:13: PG309 count of P.closed_over would be the count that c binds under `with new:`
#     hint: give count under `with new:` another name
# modular.py:22:27: PG309 x of P.into_a_comprehension would be the x that d binds under `with new:`
#     hint: give x under `with new:` another name
# modular.py:29:9: PG309 y of P.into_a_function would be the y that f binds under `with new:`
#     hint: give y under `with new:` another name
# modular.py:38:33: PG309 x of P.arguments would be the x that g binds under `with new:`
#     hint: give x under `with new:` another name
