"""Beyond 60 brackets libcst is not asked: its parser could take the process down."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x):
        y = [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
        return x
# --- modular
class C(P):
    @edit("forward")
    def one(self, x):
        with old:
            return x
        with new:
            return 1
# --- error
# modular.py:3:5: PG308 an edit of a method that is nested too deeply, beyond 60 brackets or 200 levels
#     hint: override the method
