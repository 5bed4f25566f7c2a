"""`with before:` and `with after:` put statements beside what matches; one edit has several pairs of blocks."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x):
        seen = []

        # first of all
        x = x + 1  # beside
        if x > 2: x -= 1; seen.append(x)
        for i in range(2):
            # in the loop
            x = x * 2
            # the end of the loop
        return x, seen
# --- modular
from patchgen.edits import Hole, after, before, edit, new, old
class C(P):
    @edit("forward")
    def watch(self, x, seen, h: Hole):
        with old:
            x = x + 1
        with before:
            # mine
            seen.append("start")
        with old:
            x = x * h
        with after:
            seen.append((x, h))
        with old:
            if x > 2:
                x -= 1
                ...
        with after:
            seen.append("middle")
        with old:
            return x, seen
        with new:
            return -x, seen

    @edit("forward")
    def widen(self, i):
        with old: range(2)
        with new: range(3)
# --- flat
class C(Base):
    def forward(self, x):
        seen = []

        # mine
        seen.append("start")
        # first of all
        x = x + 1  # beside
        if x > 2: x -= 1; seen.append(x)
        seen.append("middle")
        for i in range(3):
            # in the loop
            x = x * 2
            seen.append((x, 2))
            # the end of the loop
        return -x, seen
