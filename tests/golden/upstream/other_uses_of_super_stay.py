"""As a value, nested, of another method: as written."""
# --- parent
class ZnewModel(Base):
    def f(self, x):
        return x
# --- child
class ZnewModel(ZparModel):
    def f(self, x):
        y = super().f(x)
        if y:
            return super().f(y)
        super().g(x)
        return super().f(x).z
# --- merged
class ZnewModel(Base):
    def f(self, x):
        y = super().f(x)
        if y:
            return super().f(y)
        super().g(x)
        return super().f(x).z
