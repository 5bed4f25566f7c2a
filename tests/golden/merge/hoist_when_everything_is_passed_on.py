"""`*args` and `**kwargs` that are handed on: the parent's method is kept, wherever its value is used."""
# --- parent
class P:
    def __init__(self, size, scale=2, *, name="p"):
        self.size, self.scale, self.name = size, scale, name
    def returned(self, x, factor=3):
        return self.size * x * factor
    def in_the_middle(self, x, *more, offset=0):
        return x + sum(more) + offset
    def in_a_loop(self, x):
        return x + self.size
    def in_branches(self, x, y=1):
        return x - y
    def changed(self, x, **kwargs):
        return x, sorted(kwargs)
    def some(self, x, y, z=0):
        return x, y, z
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
    def in_the_middle(self, *args, **kwargs):
        first = len(args)
        out = super().in_the_middle(*args, **kwargs)
        return first, out * 2
    def in_a_loop(self, *args, **kwargs):
        out = []
        for _ in range(2):
            out.append(super().in_a_loop(*args, **kwargs))
        return out
    def in_branches(self, *args, **kwargs):
        if self.more:
            return super().in_branches(*args, **kwargs)
        return -super().in_branches(*args, **kwargs)
    def changed(self, *args, **kwargs):
        kwargs.pop("drop", None)
        kwargs.setdefault("added", 1)
        return super().changed(*args, **kwargs)
    def some(self, x, *args, **kwargs):
        x = x * 10
        return super().some(x, *args, **kwargs)
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
    def in_the_middle(self, *args, **kwargs):
        first = len(args)
        out = self._in_the_middle_of_P(*args, **kwargs)
        return first, out * 2

    def _in_the_middle_of_P(self, x, *more, offset=0):
        return x + sum(more) + offset
    def in_a_loop(self, *args, **kwargs):
        out = []
        for _ in range(2):
            out.append(self._in_a_loop_of_P(*args, **kwargs))
        return out

    def _in_a_loop_of_P(self, x):
        return x + self.size
    def in_branches(self, *args, **kwargs):
        if self.more:
            return self._in_branches_of_P(*args, **kwargs)
        return -self._in_branches_of_P(*args, **kwargs)

    def _in_branches_of_P(self, x, y=1):
        return x - y
    def changed(self, *args, **kwargs):
        kwargs.pop("drop", None)
        kwargs.setdefault("added", 1)
        return self._changed_of_P(*args, **kwargs)

    def _changed_of_P(self, x, **kwargs):
        return x, sorted(kwargs)
    def some(self, x, *args, **kwargs):
        x = x * 10
        return self._some_of_P(x, *args, **kwargs)

    def _some_of_P(self, x, y, z=0):
        return x, y, z
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
print(c.size, c.scale, c.name, c.more, c.returned(2), c.returned(2, factor=1), c.in_the_middle(1, 2, offset=3))
print(c.in_a_loop(1), c.in_branches(5, y=2), c.changed(1, drop=2, kept=3), c.some(1, 2, z=3))
print(C.made(4, scale=5).size)
