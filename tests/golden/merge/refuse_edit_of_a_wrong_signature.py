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
# --- modular
from patchgen.edits import New, Old, after, edit, new, old
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
# --- error
# modular.py:4:17: PG305 there has a name x already
#     hint: choose another name
# modular.py:6:17: PG305 not_there has no parameter y
#     hint: annotate it with New to add it
# modular.py:10:5: PG309 P.still_read still reads mask, which d removes
#     hint: edit the code that reads it, too
# modular.py:12:17: PG305 y stands behind parameters with a default
#     hint: give it a default, or write it behind `*`
