"""`**kwargs` may hold `mask`, which the parent takes by name and the child does not."""
# --- bases
class Base:
    pass
# --- parent
class P(Base):
    def forward(self, x, mask=None, **kwargs):
        return x, mask, sorted(kwargs.items())
# --- modular
class C(P):
    def forward(self, x, **kwargs):
        return super().forward(x, **kwargs)
# --- flat
class C(Base):
    def forward(self, x, **kwargs):
        return self._forward_of_P(x, **kwargs)

    def _forward_of_P(self, x, mask=None, **kwargs):
        return x, mask, sorted(kwargs.items())
# --- probe
print(C().forward(1, mask=2, other=3))
