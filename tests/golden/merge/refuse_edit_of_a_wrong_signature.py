"""A parameter that is there already, one that is not there, one that the method still reads, one without a default."""
# --- parent
class P:
    def there(self, x):
        return x
    def not_there(self, x):
        y = x
        return y
    def still_read(self, x, mask):
        return x + mask
    def without_a_default(self, x=1):
        return x
    def twice(self, x=1):
        return x
    def attribute(self, x):
        return x
    size = 3
# --- modular
from patchgen.edits import New, Old, edit
size = 4
class C(P):
    @edit("there")
    def a(self, x: New = 1): ...
    @edit("not_there")
    def b(self, y=2): ...
    @edit("not_there")
    def c(self, z: Old): ...
    @edit("still_read")
    def d(self, mask: Old): ...
    @edit("without_a_default")
    def e(self, y: New): ...
    @edit("twice")
    def f(self, x=2): ...
    @edit("twice")
    def g(self, x=3): ...
    @edit("attribute")
    def h(self, *, y: New = size): ...
# --- error
# modular.py:5:17: PG305 there has a name x already
#     hint: choose another name
# modular.py:7:17: PG305 not_there has no parameter y
#     hint: annotate it with New to add it
# modular.py:11:5: PG309 P.still_read still reads mask, which d removes
#     hint: edit the code that reads it, too
# modular.py:13:17: PG305 y stands behind parameters with a default
#     hint: give it a default, or write it behind `*`
# modular.py:17:17: PG303 two edits change the parameter x of P.twice
#     hint: keep one of them
# modular.py:19:29: PG309 size is a global here, but the class has an attribute size
#     hint: use another name
