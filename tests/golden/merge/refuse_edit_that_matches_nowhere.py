"""PG301 shows the nearest place and how it differs."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x, mask=None):
        x = self.norm(x)
        weights = softmax(self.scores(x) + mask, dim=-1, dtype=float32)
        return self.out(weights)
# --- modular
class C(P):
    @edit("forward")
    def change(self, x, weights, scores: Hole):
        with old:
            weights = softmax(scores, dim=-1)
        with new:
            weights = fast(scores)
# --- error
# modular.py:4:9: PG301 `with old:` does not occur in P.forward
#     hint: the nearest is parent.py:4:9
#         - weights = softmax(scores, dim=-1)
#         + weights = softmax(self.scores(x) + mask, dim=-1, dtype=float32)
