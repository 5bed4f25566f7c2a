"""Hard input 40: `del self.y`, and no class sets y."""
# --- bases
class Module:
    pass
# --- parent
class P(Module):
    def __init__(self, config):
        self.hidden_size = config
# --- modular
class C(P):
    def __init__(self, config):
        super().__init__(config)
        del self.hiden_size
# --- error
# modular.py:4:9: PG232 self.hiden_size is deleted, but no class that C is merged with sets it
#     hint: did you mean hidden_size?
