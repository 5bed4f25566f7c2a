# The order of statements when several classes have an `__init__`.
# The format is told in ../../packages.py.

# === init of a diamond
# classes: NeoBlock
# overrides: ToyBlock > NeoBlock
# renames: Toy > Neo
# --- modeling_toy.py
class ToyBase:
    def __init__(self, n=3):
        self.act = note("base", n)
        self.size = n


class ToyLeft(ToyBase):
    def __init__(self, n=3):
        super().__init__(n)
        self.act = note("left", self.size + <1>)


class ToyRight(ToyBase):
    def __init__(self, n=3):
        super().__init__(n * 2)
        self.size = note("right", self.act)


class ToyBlock(ToyLeft, ToyRight):
    pass
# --- modular_neo.py
from .modeling_toy import ToyBlock


class NeoBlock(ToyBlock):
    def __init__(self, n=3):
        super().__init__(n)
        self.act = note("child", self.size + <2>)
# --- probe
list(vars(NeoBlock(4)).items())

# === init of a mixin that passes everything on
# classes: NeoBlock
# overrides: ToyBlock > NeoBlock
# --- modeling_toy.py
class ToyBlock:
    def __init__(self, n=3, *, width=<1>, **options):
        self.n = n
        self.width = width
        self.options = dict(options)
        self.total = self.area

    @property
    def area(self):
        return self.n * self.width
# --- modular_neo.py
from .modeling_toy import ToyBlock


class Wider:
    def __init__(self, *args, width=<2>, **kwargs):
        super().__init__(*args, width=width + 1, **kwargs)
        self.width = note("wider", self.width * 2)


class NeoBlock(Wider, ToyBlock):
    def __init__(self, n=3, **kwargs):
        super().__init__(n, **kwargs)
        self.n = note("child", self.area)
# --- probe
list(vars(NeoBlock(4)).items())
list(vars(NeoBlock(4, width=7, more=1)).items())
