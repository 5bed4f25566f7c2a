"""An expression inside a statement can only become an expression."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x):
        y = f(x) + 1
        return y
# --- modular
class C(P):
    @edit("forward")
    def one(self, x):
        with old:
            f(x)
        with new:
            pass
# --- error
# modular.py:6:9: PG305 `with old:` matches a part of a statement, which only an expression can replace
#     hint: write one expression under `with new:`, or the whole statement under `with old:`
