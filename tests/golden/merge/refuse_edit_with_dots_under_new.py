"""`...` under `new` stands for the one `...` of its kind under `old`, and for no keyword that is given beside it."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x):
        y = f(x, 1, scale=2)
        z = x[..., 0]
        return g(y, f(x, z), z)
# --- modular
class A(P):
    @edit("forward")
    def one(self, x, y):
        with old:
            y = f(x, ...)
        with new:
            y = g(x, ..., scale=3)
class B(A):
    @edit("forward")
    def two(self, x, y, z):
        with old:
            g(y, f(x, ...), ...)
        with new:
            g(y, ...)
class C(B):
    @edit("forward")
    def three(self, x, y, z):
        with old:
            y = f(x, ...)
        with new:
            y = f(x, 1, scale=2)
            ...
# --- error
# modular.py:6:9: PG307 `...` under `with new:` stands for scale=, which is also written
#     hint: write scale= under `with old:` as well
# modular.py:14:18: PG307 `...` for arguments stands 2 times under `with old:` and 1 times under `with new:`
#     hint: write it once under each, and use a Hole for the others
# modular.py:22:13: PG307 `...` under `with new:` stands for nothing: `with old:` has none for statements
#     hint: write the `...` under `with old:` that it repeats
