"""`New` adds a parameter that the edit and those below it read, `Old` removes one, a default replaces a default."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def last(self, x, mask=None, dim=-1):
        return x * dim
    def before_the_rest(self, x, mask=None, *, dim: int = -1, **kwargs):
        if mask is not None:
            x = x + mask
        return x * dim, kwargs
    def first(
        self,
        x,  # the input
        mask=None,  # which to keep
        y=(1 + 1),
        *,
        z,
    ) -> int:
        return x + y + z
    def positional(self, x, /, y, z):
        return x + z
    def outer(self, x):
        return self.last(x), self.first(x, z=1)
# --- modular
from patchgen.edits import New, Old, edit, new, old
class C(P):
    @edit("last")
    def scaled(self, x, dim, mask: Old, factor: New[float] = 1.0):
        with old:
            return x * dim
        with new:
            return x * dim * factor

    @edit("before_the_rest")
    def shift(self, x, mask: Old = None, dim=2, shift: New = 0, *, scale: New[int] = 3):
        with old:
            if mask is not None:
                x = x + mask
        with new:
            x = x * scale + shift



    @edit("first")
    def no_mask(self, x, mask: Old, z: Old, y=5, w: New = 4):
        with old: x + y + z
        with new: x + y + w

    @edit("positional")
    def shorter(self, y: Old):
        """Nothing reads y."""

    @edit("outer")
    def pass_it_on(self, x, factor: New):
        with old: self.last(x)
        with new: self.last(x, factor=factor)
        with old: self.first(x, ...)
        with new: self.first(x)
# --- flat
class C(Base):
    def last(self, x, dim=-1, factor: float = 1.0):
        return x * dim * factor
    def before_the_rest(self, x, shift=0, *, dim: int = 2, scale: int = 3, **kwargs):
        x = x * scale + shift
        return x * dim, kwargs
    def first(
        self,
        x,  # the input
        y=5,
        w=4,
        ) -> int:
        return x + y + w
    def positional(self, x, /, z):
        return x + z
    def outer(self, x, factor):
        return self.last(x, factor=factor), self.first(x)
