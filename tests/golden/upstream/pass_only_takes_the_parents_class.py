"""Docstring, attributes, methods, in that order; comments above the class are the parent's, other statements are lost."""
# --- parent
# the parent's comment
@auto_docstring
class ZnewBase(nn.Module, metaclass=Meta):
    a = 1  # one

    def f(self):
        return "é"
        # the end of f

    # above b
    b: int = 2
    c = d = 3; e = 4
    if TYPE_CHECKING:
        g = 5
    else:
        g = 6

    """The docstring, wherever it stands.
    def h(self):
    """

    @property
    # between
    def h(
        self,
    ): ...
# --- child
# the child's comment is lost
class ZnewMLP(ZparMLP, metaclass=Other):  # this one too
    pass
# --- merged
# the parent's comment
@auto_docstring
class ZnewMLP(nn.Module, metaclass=Meta):

    """The docstring, wherever it stands.
    def h(self):
    """
    a = 1  # one

    # above b
    b: int = 2

    def f(self):
        return "é"
        # the end of f

    @property
    # between
    def h(
        self,
    ): ...
