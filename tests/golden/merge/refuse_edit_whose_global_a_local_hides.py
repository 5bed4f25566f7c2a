"""A name that an edit does not list is a global of the modular file: no local name of the method may hide it."""
# --- parent
class P:
    def parameter(self, x, scale=1, *extra, key=2, **rest):
        return x
    def assigned(self, x):
        scale = 5
        return x
    def annotated_only(self, x):
        scale: int
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
    def imported_from(self, x):
        from a import b as scale
        return x
    def walrus(self, x):
        [scale := y for y in x]
        return x
    def opened(self, x):
        with x as scale:
            pass
        return x
    def matched(self, x):
        match x:
            case {"a": [*scale]}:
                pass
        return x
    def defined(self, x):
        def scale():
            pass
        return x
    def deleted(self, x):
        if x:
            del scale
        return x
    def around(self, x):
        def inner(y):
            return y
        scale = 1
        return inner(x)
    def nonlocal_one(self, x):
        scale = 0
        def inner(y):
            nonlocal scale
            return y
        return inner(x)
    def in_a_comprehension(self, x):
        return [y for scale, y in x]
    def in_a_lambda(self, x):
        return lambda scale, y: y
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
    @edit("assigned")
    def b(self, x):
        with old:
            return x
        with new:
            return x + scale
    @edit("annotated_only")
    def c(self, x):
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
    @edit("imported_from")
    def g(self, x):
        with old:
            return x
        with new:
            return f"{x + scale}"
    @edit("walrus")
    def h(self, x):
        with old:
            return x
        with new:
            return [x + scale for _ in x]
    @edit("opened")
    def i(self, x):
        with old:
            return x
        with new:
            return lambda y=scale: y
    @edit("matched")
    def j(self, x):
        with old:
            return x
        with new:
            def inner(z: scale):
                return scale
            return inner
    @edit("defined")
    def k(self, x):
        with old:
            return x
        with new:
            return scale(x)
    @edit("deleted")
    def l(self, x):
        with old:
            return x
        with new:
            return x + scale
    @edit("around")
    def m(self, y):
        with old:
            return y
        with new:
            return y + scale
    @edit("nonlocal_one")
    def n(self, y):
        with old:
            return y
        with new:
            return y + scale
    @edit("in_a_comprehension")
    def o(self, x: Hole, y):
        with old:
            [y for scale, y in x]
        with new:
            [y + scale for y in x]
    @edit("in_a_lambda")
    def p(self, y):
        with old:
            lambda scale, y: y
        with new:
            lambda y: y + scale
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
# modular.py:15:24: PG309 scale is a global here, but P.assigned has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:21:24: PG309 scale is a global here, but P.annotated_only has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:27:24: PG309 scale is a global here, but P.loop has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:33:24: PG309 scale is a global here, but P.handled has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:39:24: PG309 scale is a global here, but P.imported has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:45:27: PG309 scale is a global here, but P.imported_from has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:51:25: PG309 scale is a global here, but P.walrus has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:57:29: PG309 scale is a global here, but P.opened has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:63:26: PG309 scale is a global here, but P.matched has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:71:20: PG309 scale is a global here, but P.defined has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:77:24: PG309 scale is a global here, but P.deleted has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:83:24: PG309 scale is a global here, but P.around has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:89:24: PG309 scale is a global here, but P.nonlocal_one has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:107:21: PG309 scale is a global here, but P.in_a_class has a local scale
#     hint: list scale among the edit's parameters if the local is meant, else use another name
# modular.py:113:20: PG309 input is a builtin here, but P.builtin has a local input
#     hint: list input among the edit's parameters if the local is meant, else use another name
