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
