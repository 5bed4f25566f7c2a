"""At its ends `...` has no bounds."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x):
        x = x + 1
        return x
# --- modular
class C(P):
    @edit("forward")
    def one(self, x):
        with old:
            ...
            return x
        with new:
            return 1
# --- error
# modular.py:4:9: PG302 the edit of forward begins or ends with `...`, which has no bounds there
#     hint: write the code between which it stands
