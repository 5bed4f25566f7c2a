"""`@deprecate_kwarg` alone replaces the parent's of that name, and no other; it stands last."""
# --- parent
class ZnewModel(Base):
    @deprecate_kwarg("past", "5.40.0", new_name="cache")
    @one
    @two(
        "@deprecate_kwarg(",
    )
    def f(self, cache):
        return 1

    def g(self, cache):
        return 2
# --- child
class ZnewModel(ZparModel):
    @deprecate_kwarg(
        "past_key_values", "5.40.0", new_name="cache"
    )
    @deprecate_kwarg("layer_past", "5.40.0", new_name="cache")
    def f(self, cache):
        return 3

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    def g(self, cache):
        return 4
# --- merged
class ZnewModel(Base):
    @one
    @two(
        "@deprecate_kwarg(",
    )
    @deprecate_kwarg(
        "past_key_values", "5.40.0", new_name="cache"
    )
    @deprecate_kwarg("layer_past", "5.40.0", new_name="cache")
    def f(self, cache):
        return 3

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    def g(self, cache):
        return 4
