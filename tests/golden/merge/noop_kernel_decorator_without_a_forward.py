"""The kernel stands in for the parent's forward, which nobody changed."""
# --- bases
def use_kernel_forward_from_hub(name):
    return lambda cls: cls
class Base:
    pass
# --- parent
@use_kernel_forward_from_hub("RMSNorm")
class P(Base):
    def forward(self, x):
        return x
# --- modular
class C(P):
    def extra_repr(self):
        return "c"
# --- flat
@use_kernel_forward_from_hub("RMSNorm")
class C(Base):
    def forward(self, x):
        return x
    def extra_repr(self):
        return "c"
# --- probe
print(C().forward(1))
