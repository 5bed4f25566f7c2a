"""Backslashes, walruses, f-strings, chains in parentheses: what is not edited stays byte for byte."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x, *, sep = '-', ** kwargs):
        if (n := len(x)) > 2 and \
           (m := n * 2) > 5:
            x = x [ 1 : n ]
        total = 1 + \
            n
        text = f"{n!r:>{total}} of {sep.join(x)}" 'end' "{n}"
        text = (
            text
            .strip()  # no spaces
            .upper()
        )
        y = n if n else(total)
        return(text), y, [*x, 0], {**kwargs, 'n' : n}, (lambda a, b = n: a + b)(1)
# --- modular
from patchgen.edits import Hole, edit, new, old
class C(P):
    @edit("forward")
    def longer(self, n, x):
        with old:
            (n := len(x))
        with new:
            (n := len(x) + 1)

    @edit("forward")
    def sliced(self, x, what: Hole):
        with old:
            x[what]
        with new:
            list(x)[what]

    @edit("forward")
    def sum(self, n):
        with old:
            1 + n
        with new:
            n * \
                2

    @edit("forward")
    def commas(self, sep, x):
        with old:
            sep.join(x)
        with new:
            sep.join(reversed(x))

    @edit("forward")
    def lower(self, text, what: Hole):
        with old:
            what.upper()
        with new:
            what.lower()
# --- flat
class C(Base):
    def forward(self, x, *, sep = '-', ** kwargs):
        if (n := len(x) + 1) > 2 and \
           (m := n * 2) > 5:
            x = list(x)[1 : n]
        total = n * \
                2
        text = f"{n!r:>{total}} of {sep.join(reversed(x))}" 'end' "{n}"
        text = (
            text
            .strip().lower()
        )
        y = n if n else(total)
        return(text), y, [*x, 0], {**kwargs, 'n' : n}, (lambda a, b = n: a + b)(1)
