"""Removed: `f` and, with a comment on its line, `g`.  Shipped: directly under `class`, decorated, a longer signature."""
# --- parent
class ZnewModel(Base):
    def first(self):
        return 0

    def f(self):
        return 1

    def g(self):
        return 2

    def h(self):
        return 3

    def i(self, x):
        return 4
# --- child
class ZnewModel(ZparModel):
    def first(self):
        raise AttributeError("Not needed")

    def f(self):
        raise AttributeError("Not needed")

    def g(self):  # trf-ignore: TRF033
        raise NotImplementedError("Not needed")

    @property
    def h(self):
        raise AttributeError("Not needed")

    def i(
        self,
    ):
        raise AttributeError("Not needed")

    def new(self):
        raise ValueError("There is no such method in the parent")
# --- merged
class ZnewModel(Base):
    def first(self):
        raise AttributeError("Not needed")

    @property
    def h(self):
        raise AttributeError("Not needed")

    def i(
        self,
    ):
        raise AttributeError("Not needed")

    def new(self):
        raise ValueError("There is no such method in the parent")
