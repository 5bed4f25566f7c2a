"""`**kwargs` under the same name, when every named parameter is the child's own."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x, **kwargs):
        return x, sorted(kwargs.items())
# --- modular
class C(P):
    def forward(self, x, **kwargs):
        x = x + kwargs.pop("more", 0)
        return super().forward(x, **kwargs)
# --- flat
class C(Base):
    def forward(self, x, **kwargs):
        x = x + kwargs.pop("more", 0)
        return x, sorted(kwargs.items())
# --- probe
print(C().forward(1, more=2, other=3))
