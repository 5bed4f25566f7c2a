"""`...` matches what need not be repeated, so it cannot be repeated."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x):
        y = f(x, 1, 2)
        z = x[..., 0]
        return y
# --- modular
class C(P):
    @edit("forward")
    def one(self, x, y):
        with old:
            y = f(x, ...)
        with new:
            y = g(x, ...)
# --- error
# modular.py:7:22: PG305 `...` under `with new:` stands for nothing
#     hint: give what it should repeat a name that is annotated with Hole
