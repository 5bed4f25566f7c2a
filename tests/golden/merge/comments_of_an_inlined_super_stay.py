"""Comments beside and inside the call stand above the parent's statements, but for those of a value that is assigned."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def __init__(self, size):
        self.size = size

    def forward(self, x):
        x = x + self.size
        return x
# --- modular
class C(P):
    def __init__(self, size):
        # above
        super().__init__(
            # first
            size  # "quoted # text"
            # last
        )  # beside
        self.text = """
# no comment
"""

    def forward(self, x):
        return super().forward(
            # inside
            (
                x  # doubled
                * 2
            )
        )
# --- flat
class C(Base):
    def __init__(self, size):
        # above
        # first
        # "quoted # text"
        # last
        # beside
        self.size = size
        self.text = """
# no comment
"""

    def forward(self, x):
        # inside
        x = (x  # doubled
                * 2)
        x = x + self.size
        return x
# --- probe
print(C(2).forward(3))
