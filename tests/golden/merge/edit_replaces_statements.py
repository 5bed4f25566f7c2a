"""An edit replaces a run of statements; comments outside it and inside the new part are kept."""
# --- bases
def soft(x, dim=None):
    return [i / sum(x) for i in x]
def fast(x, scale):
    return [i * scale for i in x]
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x, y=2):
        """Doc."""
        # first
        z = [i + y for i in x]

        # the middle
        w = soft( z, dim = - 1 )  # why
        w = (
            [i * 3 for i in w]  # times three
        )

        # the end
        return w
# --- modular
from patchgen.edits import Hole, edit, new, old
class C(P):
    @edit("forward")
    def use_fast(self, z, w, what: Hole):
        """Why this is done."""
        with old:
            w = soft(what, dim=-1)
            w = [i * 3 for i in w]
        with new:
            # in one go
            w = fast(
                what,
                3,
            )

            # really

    x = 1
# --- flat
class C(Base):

    x = 1
    def forward(self, x, y=2):
        """Doc."""
        # first
        z = [i + y for i in x]

        # the middle
        # in one go
        w = fast(
            z,
            3,
        )

        # really

        # the end
        return w
