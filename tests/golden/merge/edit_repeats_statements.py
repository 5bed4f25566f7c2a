"""`...` under `new` stands for the statements that the `...` under `old` matched, with their comments, indented anew."""
# --- bases
import contextlib
seen = []
@contextlib.contextmanager
def quiet():
    seen.append("in")
    yield
    seen.append("out")
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x):
        # the start
        y = x + 1
        # doubled, because
        y = (
            y * 2  # of this
        )

        if y > 3:
            # large
            y = y - 1
            # done
        text = """as
it is"""
        # the end
        z = y
        return z, text, seen
# --- modular
from patchgen.edits import edit, new, old
class C(P):
    @edit("forward")
    def be_quiet(self, x, y, z):
        with old:
            y = x + 1
            ...
            z = y
        with new:
            y = x + 2
            with quiet():
                # all the rest
                ...
            z = -y

# --- flat
class C(Base):
    def forward(self, x):
        # the start
        y = x + 2
        with quiet():
            # all the rest
            # doubled, because
            y = (
                y * 2  # of this
            )

            if y > 3:
                # large
                y = y - 1
                # done
            text = """as
it is"""
        z = -y
        return z, text, seen
