"""It asks for no decorators, the other one for itself."""
# --- parent
class ZnewConfig(PreTrainedConfig):
    def f(self):
        pass
# --- child
class ZnewConfig(ZparConfig):

    @no_inherit_decorator
    @other
    def f(self):
        pass
# --- refused
5:5 PG620
