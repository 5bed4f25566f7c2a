"""The wrapped `__init__` takes the configuration first and sets `config` afterwards."""
# --- bases
def use_experts_implementation(cls):
    return cls
class Base:
    pass
# --- parent
@use_experts_implementation
class P(Base):
    def __init__(self, config):
        self.n = config
# --- modular
class C(P):
    def __init__(self, size, config):
        super().__init__(config)
        self.size = size
# --- error
# parent.py:1:1: PG225 P is decorated with use_experts_implementation, whose __init__ takes the configuration first, and the child's takes something else
#     hint: take the same first argument under the same name
