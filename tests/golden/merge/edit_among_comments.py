"""Comments stay above and below what is replaced or deleted; those between matched statements go with them."""
# --- bases
def logged(function):
    return function
class Base:
    pass
# --- parent
class P(Base):
    @logged  # always
    # and again
    @logged
    def forward(
        self,
        x,  # the input
    ):
        """Doc."""

        # above
        x = x + 1  # beside
        # between
        x = x * 2
        # below

        for i in range(3):  # three times

            # add
            x += i  # here

            # subtract
            if x > 5:
                x -= 1
                # deeper
            # the last of the loop
        # above a nested function
        @logged
        # below its decorator
        def inner(y):
            return y  # as it is
        return inner(
            x  # whatever
        )
# --- modular
from patchgen.edits import edit, new, old
class C(P):
    @edit("forward")
    def one(self, x):
        with old:
            x = x + 1
            x = x * 2
        with new:  # lost
            # mine above
            x = x + 3  # mine beside
            # mine below

    @edit("forward")
    def two(self, x, i):
        with old:
            x += i
        with new:
            # because
            pass

    @edit("forward")
    def three(self, x):
        with old:
            if x > 5:
                x -= 1
        with new:
            pass

    @edit("forward")
    def four(self, inner, y):
        with old:
            @logged
            def inner(y):
                return y
        with new:
            def inner(y):
                return -y

    @edit("forward")
    def five(self, x, inner):
        with old:
            inner(x)
        with new:
            # mine in the middle
            inner(x) + 1
# --- flat
class C(Base):
    @logged  # always
    # and again
    @logged
    def forward(
        self,
        x,  # the input
    ):
        """Doc."""

        # above
        # mine above
        x = x + 3  # mine beside
        # mine below
        # below

        for i in range(3):  # three times

            # add
            # because

            # subtract
            # the last of the loop
            pass
        # above a nested function
        def inner(y):
            return -y
        # mine in the middle
        return inner(x) + 1
