"""Two edits of one place, an edit and an override: errors that name both."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x):
        x = x + 1
        x = x * 2
        return x
    def other(self, x):
        return x
# --- modular
class C(P):
    @edit("forward")
    def one(self, x):
        with old:
            x = x + 1
            x = x * 2
        with new:
            x = 0

    @edit("forward")
    def two(self, x):
        with old:
            x * 2
        with new:
            x * 3

    @edit("other")
    def three(self, x):
        with old:
            return x
        with new:
            return -x

    def other(self, x):
        return 0
# --- error
# modular.py:11:5: PG303 the edit two changes what one changes
#     hint: make one edit of both
# modular.py:18:5: PG303 other is edited here and overridden on line 24
#     hint: keep one of them
