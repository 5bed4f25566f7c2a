"""`*args` and `**kwargs` that are handed on: the parent's method is kept, wherever its value is used."""
# --- parent
class P:
    def __init__(self, size, scale=2, *, name="p"):
        self.size, self.scale, self.name = size, scale, name
    def returned(self, x, factor=3):
        return self.size * x * factor
    def changed(self, x, **kwargs):
        return x, sorted(kwargs)
    @classmethod
    def made(cls, *args, **kwargs):
        return cls(*args, **kwargs)
# --- modular
class C(P):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.more = True
    def returned(self, *args, **kwargs):
        return super().returned(*args, **kwargs)
    def changed(self, *args, **kwargs):
        kwargs.pop("drop", None)
        kwargs.setdefault("added", 1)
        return super().changed(*args, **kwargs)
    @classmethod
    def made(cls, *args, **kwargs):
        made = super().made(*args, **kwargs)
        made.size += 1
        return made
# --- flat
class C:
    def __init__(self, *args, **kwargs):
        self._init_of_P(*args, **kwargs)
        self.more = True

    def _init_of_P(self, size, scale=2, *, name="p"):
        self.size, self.scale, self.name = size, scale, name
    def returned(self, *args, **kwargs):
        return self._returned_of_P(*args, **kwargs)

    def _returned_of_P(self, x, factor=3):
        return self.size * x * factor
    def changed(self, *args, **kwargs):
        kwargs.pop("drop", None)
        kwargs.setdefault("added", 1)
        return self._changed_of_P(*args, **kwargs)

    def _changed_of_P(self, x, **kwargs):
        return x, sorted(kwargs)
    @classmethod
    def made(cls, *args, **kwargs):
        made = cls._made_of_P(*args, **kwargs)
        made.size += 1
        return made

    @classmethod
    def _made_of_P(cls, *args, **kwargs):
        return cls(*args, **kwargs)
# --- probe
c = C(3, name="c")
print(c.size, c.scale, c.name, c.more, c.returned(2, factor=1), c.changed(1, drop=2, kept=3))
print(C.made(4, scale=5).size)
