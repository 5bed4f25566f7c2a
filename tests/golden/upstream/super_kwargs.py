"""The parent's parameters with the child's in place and added; commas and comments travel with the parameters."""
# --- parent
class ZnewModel(Base):
    def forward(
        self,
        a: int,  # of a
        b: tuple[int, int] = (1, 2),  # of b
        c=")",
        **kwargs: Unpack[Kwargs],
    ) -> Output:
        """Doc."""
        return a

    def generate(self, a):
        return a
# --- child
class ZnewModel(ZparModel):
    def forward(self, b: int = 3, d=None, **super_kwargs) -> Other:
        return super().forward(**super_kwargs)

    def generate(**super_kwargs):
        """The child's doc."""
        return super().generate(**super_kwargs)
# --- merged
class ZnewModel(Base):
    def forward(self, a: int,  # of a
 b: int = 3, c=")", d=None, **kwargs: Unpack[Kwargs],) -> Other:
        """Doc."""
        return a

    def generate(self, a):
        """The child's doc."""
        return a
