"""With any other decorator, the child's replace the parent's, as everywhere."""
# --- parent
class ZnewModel(Base):
    @one
    def f(self, cache):
        return 1

    @deprecate_kwarg("past", "5.40.0", new_name="cache")
    @one
    def g(self, cache):
        return 2
# --- child
class ZnewModel(ZparModel):
    @deprecate_kwarg("past", "5.40.0", new_name="cache")
    @two
    def f(self, cache):
        return 3

    @one
    def g(self, cache):
        return 4
# --- merged
class ZnewModel(Base):
    @deprecate_kwarg("past", "5.40.0", new_name="cache")
    @two
    def f(self, cache):
        return 3

    @one
    def g(self, cache):
        return 4
