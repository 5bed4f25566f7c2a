"""`*rest: Hole` stands for the other parameters: what is added stands where the edit has it, and may take a variable's name."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x, mask=None, positions=None, *, dim=-1, **kwargs):
        scores = self.scores(x, mask)
        return scores, positions, dim, kwargs
    def scores(
        self,
        x,  # the input
        mask=None,  # which to keep
        bias: int = 0,
    ):
        return x, mask, bias
    def rename(self, x, mask=None, bias=0):
        return x + mask + bias
    def exact(self, x, /, y):
        return x + y
    def all_of(self, x, *rest):
        return x, rest
    @staticmethod
    def alone(x, y=1):
        return x + y
# --- modular
from patchgen.edits import Hole, New, Old, edit, new, old
class C(P):
    @edit("forward")
    def make_a_parameter(self, x, separators: New[list], scores: New = None, mask=..., *rest: Hole, scale: New = 1):
        with old:
            scores = self.scores(x, mask)
        with new:
            if scores is None:
                scores = self.scores(x * scale, separators, mask)

    @edit("scores")
    def add_separators(self, x, separators: New[list], mask=..., gate: New = None, bias=..., *others: Hole):
        with old: x, mask, bias
        with new: x, mask, separators, gate, bias

    @edit("rename")
    def rename_mask(self, mask: Old, valid: New = 0, *rest: Hole):
        with old: mask
        with new: valid

    @edit("exact")
    def first(self, z: New, y, *rest: Hole):
        with old: y
        with new: y * z

    @edit("all_of")
    def before_the_rest(self, x, rest, scale: New, *others: Hole):
        with old: return x, rest
        with new: return x * scale, rest

    @edit("alone")
    def most(z: New, x, y, *rest: Hole):
        with old: y
        with new: y + z
# --- flat
class C(Base):
    def forward(self, x, separators: list, scores=None, mask=None, positions=None, *, dim=-1, scale=1, **kwargs):
        if scores is None:
            scores = self.scores(x * scale, separators, mask)
        return scores, positions, dim, kwargs
    def scores(
        self,
        x,  # the input
        separators: list, mask=None,  # which to keep
        gate=None, bias: int = 0,
    ):
        return x, mask, separators, gate, bias
    def rename(self, x, valid=0, bias=0):
        return x + valid + bias
    def exact(self, z, x, /, y):
        return x + y * z
    def all_of(self, x, scale, *rest):
        return x * scale, rest
    @staticmethod
    def alone(z, x, y=1):
        return x + (y + z)
