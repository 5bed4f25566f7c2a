"""A misspelt method, a misspelt name of the method, an edit that changes nothing."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, hidden_states):
        return hidden_states + 1

    def other(self, x):
        return x

    size = 1
# --- modular
class C(P):
    @edit("foward")
    def one(self):
        with old:
            x
        with new:
            y

    @edit("forward")
    def two(self, hiden_states):
        with old:
            hiden_states + 1
        with new:
            hiden_states

    @edit("other")
    def three(self, x):
        with old:
            return x
        with new:
            return (x)

    @edit("size")
    def four(self):
        with old:
            x
        with new:
            y
# --- error
# modular.py:2:11: PG304 no class that C is merged with has a method foward
#     hint: did you mean forward?
# modular.py:10:19: PG305 forward has no name hiden_states
#     hint: did you mean hidden_states?
# modular.py:17:5: PG306 the edit of other changes nothing
#     hint: remove it
# modular.py:23:11: PG304 size of P is not one method
#     hint: override it
