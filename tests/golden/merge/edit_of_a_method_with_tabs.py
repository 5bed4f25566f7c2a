"""Suites that are indented by tabs stay so; the new statements follow their place."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
	def forward(self, x):
		if x:
			# positive
			y = x + 1
			y = y * 2
		else:
			y = 0
		return y
# --- modular
from patchgen.edits import edit, new, old
class C(P):
    @edit("forward")
    def one(self, y):
        with old:
            y = y * 2
        with new:
            if y > 3:
                y = (
                    y * 3
                )
# --- flat
class C(Base):
    def forward(self, x):
        if x:
            # positive
            y = x + 1
            if y > 3:
                y = (
                    y * 3
                )
        else:
            y = 0
        return y
# --- edited
class P(Base):
    def forward(self, x):
        if x:
            y = x + 1
            if y > 3:
                y = y * 3
        else:
            y = 0
        return y
# --- probe
print(C().forward(1), C().forward(3), C().forward(0))
