"""Strings and comments of the parent only (the second renaming)."""
# --- parent
# znew
class ZnewModel(Base):
    """The znew model."""
    x = "znew"

    def f(self):
        znew = "znew"
# --- child
class ZnewTextModel(ZparModel):
    """The znew text model."""
# --- merged
# ZNEW
class ZnewTextModel(Base):
    """The znew text model."""
    x = "ZNEW"

    def f(self):
        znew = "ZNEW"
