"""In the parent's order, replaced with annotation and comments, removed, added; one that names a method removes it."""
# --- parent
class ZnewConfig(PreTrainedConfig):
    # kept
    a: int = 1
    # goes with its line
    b: int = 2
    c = 3
    d = {"x": 1}

    @property
    def latent(self):
        return 1

    def tied(self):
        return 2
# --- child
class ZnewConfig(ZparConfig):
    e: int | None = None
    # the child's
    b = 20
    c = AttributeError()
    latent = 5
    x, y = 1, 2
    z = 1; w = 2
# --- merged
class ZnewConfig(PreTrainedConfig):
    # kept
    a: int = 1
    # the child's
    b = 20
    d = {"x": 1}
    e: int | None = None
    latent = 5
    x, y = 1, 2

    def tied(self):
        return 2
