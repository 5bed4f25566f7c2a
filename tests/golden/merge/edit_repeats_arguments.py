"""`...` under `new` stands for the arguments that the `...` under `old` matched, in their order."""
# --- bases
def call(*args, **kwargs):
    return args, list(kwargs.items())
def other(*args, **kwargs):
    return "other", args, list(kwargs.items())
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x, *args, **kwargs):
        first = call(
            self,
            x,
            1,  # one
            # and two
            dim=2,
            **kwargs,
        )[0][1:]
        second = call(x, *args, 3, scale=4)
        third = call(x, scale=4)
        fourth = call(self.n)
        return first, second, third, fourth
    n = 7
# --- modular
from patchgen.edits import Hole, edit, new, old
class C(P):
    @edit("forward")
    def keep_all(self):
        with old:
            call(self, ...)[0]
        with new:
            other(self, ...)[1]

    @edit("forward")
    def one_before_and_one_behind(self, x, second):
        with old:
            second = call(x, ...)
        with new:
            second = other(..., x, last=0)

    @edit("forward")
    def one_less(self, x, third, s: Hole):
        with old:
            third = call(x, ..., scale=s)
        with new:
            third = other(-s, ...)

    @edit("forward")
    def nothing_is_left(self, n: Hole):
        with old:
            fourth = call(n, ...)
        with new:
            fourth = other(..., key=n)
# --- flat
class C(Base):
    def forward(self, x, *args, **kwargs):
        first = other(self, x,
            1,  # one
            # and two
            dim=2,
            **kwargs,
        )[1][1:]
        second = other(*args, 3, x, scale=4, last=0)
        third = other(-4)
        fourth = other(key=self.n)
        return first, second, third, fourth
    n = 7
