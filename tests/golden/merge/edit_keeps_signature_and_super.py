"""An edited method keeps its decorators and its place: `super()` in it and of it mean what they meant."""
# --- bases
def doubled(function):
    return lambda self, x: function(self, x) * 2
class Base:
    def forward(self, x):
        return x
# --- parent
class G(Base):
    def forward(self, x):
        return super().forward(x) + 10
class P(G):
    @doubled
    def forward(self, x):
        y = super().forward(x)
        return y + 1
# --- modular
from patchgen.edits import edit, new, old
class C(P):
    @edit("forward")
    def more(self, y):
        with old:
            return y + 1
        with new:
            return y + 100
# --- flat
class C(Base):
    @doubled
    def forward(self, x):
        y = self._forward_of_G(x)
        return y + 100

    def _forward_of_G(self, x):
        return super().forward(x) + 10
# --- edited
class G(Base):
    def forward(self, x):
        return super().forward(x) + 10
class P(G):
    @doubled
    def forward(self, x):
        y = super().forward(x)
        return y + 100
# --- probe
print(C().forward(1))
