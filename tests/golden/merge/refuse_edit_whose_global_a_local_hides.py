"""A name that an edit does not list is a global of the modular file: no local name of the method may hide it."""
# --- parent
class P:
    def parameter(self, x, scale=1, *extra, key=2, **rest):
        return x
    def loop(self, x):
        for a, (scale, *b) in x:
            pass
        return x
    def handled(self, x):
        try:
            pass
        except ValueError as scale:
            pass
        return x
    def imported(self, x):
        import scale.deep
        return x
    def matched(self, x):
        match x:
            case {"a": [*scale]}:
                pass
        return x
    def nonlocal_one(self, x):
        scale = 0
        def inner(y):
            nonlocal scale
            return y
        return inner(x)
    def in_a_class(self, x):
        class Inner:
            scale = 1
            y = x
        return Inner
    def builtin(self, x, input=None):
        return x
# --- modular
from patchgen.edits import Hole, edit, new, old
scale = 100
class C(P):
    @edit("parameter")
    def a(self, x):
        with old:
            return x
        with new:
            return x + scale
    @edit("loop")
    def d(self, x):
        with old:
            return x
        with new:
            return x + scale
    @edit("handled")
    def e(self, x):
        with old:
            return x
        with new:
            return x + scale
    @edit("imported")
    def f(self, x):
        with old:
            return x
        with new:
            return x + scale.deep
    @edit("matched")
    def j(self, x):
        with old:
            return x
        with new:
            def inner(z: scale):
                return scale
            return inner
    @edit("nonlocal_one")
    def n(self, y):
        with old:
            return y
        with new:
            return y + scale
    @edit("in_a_class")
    def q(self, x, y):
        with old:
            y = x
        with new:
            y = x + scale
    @edit("builtin")
    def r(self, x):
        with old:
            return x
        with new:
            return input(x)
# --- error
# modular.py:9:24: PG309 scale is a global here, but P.parameter has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:15:24: PG309 scale is a global here, but P.loop has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:21:24: PG309 scale is a global here, but P.handled has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:27:24: PG309 scale is a global here, but P.imported has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:33:26: PG309 scale is a global here, but P.matched has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:41:24: PG309 scale is a global here, but P.nonlocal_one has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:47:21: PG309 scale is a global here, but P.in_a_class has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:53:20: PG309 input is a builtin here, but P.builtin has a local input
#     hint: list input among the edit's parameters if the local is meant, else use another name
