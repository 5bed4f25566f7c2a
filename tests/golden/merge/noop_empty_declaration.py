"""A declaration that only derives gives the parent, byte for byte."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    """What P is."""  # a comment behind it

    first = 1  # kept
    # above second
    second = (
        2
    )


    def forward(self,x):   # odd spacing stays
        return x  +  self.first

    # the last word
# --- modular
class C(P):
    pass
# --- flat
class C(Base):
    """What P is."""  # a comment behind it

    first = 1  # kept
    # above second
    second = (
        2
    )


    def forward(self,x):   # odd spacing stays
        return x  +  self.first
# --- probe
print(C().forward(1), C.second)
