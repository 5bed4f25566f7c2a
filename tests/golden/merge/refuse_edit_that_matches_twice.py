"""PG301: it must match exactly as often as it says."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x):
        x = self.norm(x)
        return self.norm(x)
# --- modular
class C(P):
    @edit("forward")
    def change(self, x):
        with old:
            self.norm(x)
        with new:
            x
# --- error
# modular.py:4:9: PG301 `with old:` matches 2 times in P.forward, not 1: lines 3, 4
#     hint: make it longer, or write count=2
