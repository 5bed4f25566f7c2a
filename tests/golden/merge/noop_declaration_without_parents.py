"""A class with no parent to merge stays as it is; only its bases are written anew."""
# --- bases
class Base:
    def forward(self, x):
        return x
# --- parent
helper = 1
# --- modular
class C(Base):  # why it exists
    """Doc."""
    ...
    x = 1; y = 2
    def forward(self, x):
        return super().forward(x) + 1
# --- flat
class C(Base):  # why it exists
    """Doc."""
    ...
    x = 1
    y = 2
    def forward(self, x):
        return super().forward(x) + 1
# --- probe
print(C().forward(1), C.y)
