"""Locals that hide nothing of an edit: they are listed, stand in other scopes, are gone, or are written as attributes."""
# --- bases
scale = 100
# --- parent
class P:
    def listed(self, x):
        scale = 5
        return x
    def elsewhere(self, x):
        a = [scale for scale in x]
        b = lambda scale: scale
        def c(scale):
            return scale
        class D:
            scale = 1
            def e(self):
                return 3
        return a, b(1), c(2), D().e(), D.scale
    def declared(self, x):
        global scale
        scale = scale
        return x
    def gone(self, x):
        scale = 5
        return x
    def attribute(self, x):
        x.scale = 5
        return dict(scale=x.scale)
    def bound_anew(self, x):
        first = x
        second = first + 1
        return second
    def its_own(self, x):
        return [x + y for y in range(3)]
# --- modular
from patchgen.edits import Hole, edit, new, old
class C(P):
    @edit("listed")
    def a(self, x, scale):
        with old:
            return x
        with new:
            return x + scale
    @edit("elsewhere")
    def b(self, a):
        with old:
            return 3
        with new:
            return 3 + scale
    @edit("elsewhere")
    def b2(self, x: Hole, a):
        with old:
            a = x
        with new:
            a = x, scale
    @edit("declared")
    def c(self, x):
        with old:
            return x
        with new:
            return x + scale
    @edit("gone")
    def d(self, x):
        with old:
            scale = 5
        with new:
            x += scale
    @edit("attribute")
    def e(self, x):
        with old:
            x.scale = 5
        with new:
            x.scale = scale
    @edit("bound_anew")
    def f(self, x):
        with old:
            first = x
        with new:
            fresh = x * 10
            first = fresh
    @edit("bound_anew")
    def g(self, first):
        with old:
            second = first + 1
        with new:
            second = sum(first for _ in range(2))
    @edit("its_own")
    def h(self, x, y):
        with old:
            x + y
        with new:
            sum(x + z for z in (y, scale))
# --- flat
class C:
    def listed(self, x):
        scale = 5
        return x + scale
    def elsewhere(self, x):
        a = [scale for scale in x], scale
        b = lambda scale: scale
        def c(scale):
            return scale
        class D:
            scale = 1
            def e(self):
                return 3 + scale
        return a, b(1), c(2), D().e(), D.scale
    def declared(self, x):
        global scale
        scale = scale
        return x + scale
    def gone(self, x):
        x += scale
        return x
    def attribute(self, x):
        x.scale = scale
        return dict(scale=x.scale)
    def bound_anew(self, x):
        fresh = x * 10
        first = fresh
        second = sum(first for _ in range(2))
        return second
    def its_own(self, x):
        return [sum(x + z for z in (y, scale)) for y in range(3)]
# --- edited
class P:
    def listed(self, x):
        scale = 5
        return x + scale
    def elsewhere(self, x):
        a = [scale for scale in x], scale
        b = lambda scale: scale
        def c(scale):
            return scale
        class D:
            scale = 1
            def e(self):
                return 3 + scale
        return a, b(1), c(2), D().e(), D.scale
    def declared(self, x):
        global scale
        scale = scale
        return x + scale
    def gone(self, x):
        x += scale
        return x
    def attribute(self, x):
        x.scale = scale
        return dict(scale=x.scale)
    def bound_anew(self, x):
        fresh = x * 10
        first = fresh
        second = sum(first for _ in range(2))
        return second
    def its_own(self, x):
        return [sum(x + z for z in (y, scale)) for y in range(3)]
# --- probe
class N: pass
print(C().listed(1), C().elsewhere([4]), C().declared(1), C().gone(1), C().attribute(N()), C().bound_anew(1), C().its_own(1))
