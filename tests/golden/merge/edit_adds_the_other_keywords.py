"""`**kwargs: New` adds `**kwargs` to a method that has none; the edit and those below it read them."""
# --- parent
class P:
    def last(self, x, mask=None):
        y = self.inner(x, mask)
        return y
    def lines(
        self,
        x,  # the input
        *,
        mask=None,  # which to keep
    ) -> int:
        return x + mask
    def stars(self, *args):
        return args
    def alone(self):
        return 1
# --- modular
from patchgen.edits import Hole, New, edit, new, old
class C(P):
    @edit("last")
    def pass_on(self, x, mask, **kwargs: New[object]):
        with old: self.inner(x, mask)
        with new: self.inner(x, mask, **kwargs)

    @edit("last")
    def count(self, y, kwargs):
        with old: return y
        with new: return y, len(kwargs)

    @edit("lines")
    def more(self, x, scale: New = 2, *rest: Hole, other: New = 3, **others: New): ...

    @edit("stars")
    def named(self, **kwargs: New): ...

    @edit("alone")
    def with_self(self, **kwargs: New): ...
# --- flat
class C:
    def last(self, x, mask=None, **kwargs: object):
        y = self.inner(x, mask, **kwargs)
        return y, len(kwargs)
    def lines(
        self,
        x, scale=2,  # the input
        *,
        mask=None, other=3, **others,  # which to keep
    ) -> int:
        return x + mask
    def stars(self, *args, **kwargs):
        return args
    def alone(self, **kwargs):
        return 1
