"""An edit is `with old:`, then `with new:`, and nothing else."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x):
        return x + 1
# --- modular
class C(P):
    @edit("forward")
    def one(self, x):
        with old:
            x + 1
        x = 2
# --- error
# modular.py:3:5: PG302 the edit of forward is not `with old:` followed by `with new:`
#     hint: write these two blocks, or `with before:` or `with after:` as the second one
