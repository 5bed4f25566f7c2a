"""An edit reads what the edits above it bind, and not what those below it do."""
# --- parent
class P:
    def forward(self, x):
        y = x * 2
        return y
# --- modular
from patchgen.edits import edit, new, old
class C(P):
    @edit("forward")
    def use_it(self, y, width):
        with old:
            return y
        with new:
            return y + width

    @edit("forward")
    def measure(self, x, y):
        with old:
            y = x * 2
        with new:
            width = x
            y = x * 2
# --- error
# modular.py:4:25: PG305 forward has no name width
#     hint: annotate it with Hole if it stands for an expression; where the method no longer has it, leave it out
