"""Statements that share their line with others are taken apart where one of them changes."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x):
        # all at once
        a = 1; b = 2; c = 3  # three
        if x: a = 4; b = 5  # two
        else: c = 6
        while a > 3: a -= 1; b -= 1
        return a, b, c
# --- modular
from patchgen.edits import edit, new, old
class C(P):
    @edit("forward")
    def one(self, b):
        with old:
            b = 2
        with new:
            # the middle
            b = 20

    @edit("forward")
    def two(self, a, b):
        with old:
            a = 4
        with new:
            a = 40; b = 0

    @edit("forward")
    def three(self, c):
        with old: c = 6
        with new: c = 60

    @edit("forward")
    def four(self, b):
        with old: b -= 1
        with new: pass
# --- flat
class C(Base):
    def forward(self, x):
        # all at once
        a = 1
        # the middle
        b = 20
        c = 3  # three
        if x:
            a = 40; b = 0
            b = 5  # two
        else:
            c = 60
        while a > 3:
            a -= 1
        return a, b, c
