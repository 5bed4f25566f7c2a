"""The child's, else the parent's; `@no_inherit_decorator` alone: none."""
# --- parent
@old
class ZnewModel(Base):
    # above f
    @one
    # between
    async def f(self):
        """Doc of f."""
        return 1

    @two
    def g(self) -> int:
        return 2

    @three
    def h(self): # of the parent
        return 3
# --- child
@no_inherit_decorator
class ZnewModel(ZparModel):
    # lost
    @ein
    @eins
    def f(self, x, /):
        return x

    def g(self, *, y): # of the child
        return y

    @no_inherit_decorator
    def h(self) -> str:
        """Doc of h."""
        return ""
# --- merged
class ZnewModel(Base):
    # above f
    @ein
    @eins
    # between
    async def f(self, x, /):
        """Doc of f."""
        return x

    @two
    def g(self, *, y) -> int: # of the child
        return y

    def h(self) -> str:
        """Doc of h."""
        return ""
