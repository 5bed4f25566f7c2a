"""`with new: pass` deletes; a suite that becomes empty keeps a `pass`."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x, **kwargs):
        kwargs.pop("a", None)
        if x:
            x = x + 1
        return x, kwargs
# --- modular
from patchgen.edits import edit, new, old
class C(P):
    @edit("forward")
    def keep_a(self, kwargs):
        with old:
            kwargs.pop("a", None)
        with new:
            pass

    @edit("forward")
    def no_more(self, x):
        with old:
            x = x + 1
        with new:
            pass
# --- flat
class C(Base):
    def forward(self, x, **kwargs):
        if x:
            pass
        return x, kwargs
