"""The second definition of a name is its setter, unless it is the property."""
# --- parent
class ZnewModel(Base):
    @x.setter
    def x(self, value):
        self._x = value

    @property
    def x(self):
        return self._x
# --- child
class ZnewModel(ZparModel):
    @property
    def x(self):
        return 1

    @x.setter
    def x(self, value):
        pass
# --- merged
class ZnewModel(Base):

    @property
    def x(self):
        return 1
    @x.setter
    def x(self, value):
        pass
