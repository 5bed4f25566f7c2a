"""`use_kernelized_func` registers functions in `__init__`: all of them, unless the parent's `__init__` does not run."""
# --- bases
def use_kernelized_func(function):
    return lambda cls: cls
def rope(x):
    return x
class Base:
    pass
# --- parent
@use_kernelized_func(rope)
class G(Base):
    def __init__(self):
        pass
@use_kernelized_func(rope)
class P(G):
    def __init__(self):
        pass
    def forward(self, x):
        return x
# --- modular
class C(P):
    def forward(self, x):
        return x + 1
# --- flat
@use_kernelized_func(rope)
class C(Base):
    def __init__(self):
        pass
    def forward(self, x):
        return x + 1
# --- probe
print(C().forward(1))
