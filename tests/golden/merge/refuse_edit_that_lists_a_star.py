"""A variable of the method is listed by its name, `*rest: Hole` stands for parameters."""
# --- parent
class P:
    def forward(self, x, *rest):
        return x
# --- modular
from patchgen.edits import edit, new, old
class C(P):
    @edit("forward")
    def a(self, x, *rest):
        with old: x
        with new: rest
# --- error
# modular.py:4:21: PG302 the edit has the parameter rest with a star
#     hint: list a variable by its name alone; `*rest: Hole` stands for the other parameters
