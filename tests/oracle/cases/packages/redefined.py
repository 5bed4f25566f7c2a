# Functions, constants and classes of the modular file that take the place of the parent's.
# The format is told in ../../packages.py.

# === function redefined beside a class
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
FACTOR = 3


def shift(x):
    return note("shift", x + FACTOR)


class ToyBlock:
    def __init__(self, n=3):
        self.n = n

    def step(self, x):
        return shift(x) + self.n
# --- modular_neo.py
from . import modeling_toy as up


def shift(x):
    return note("new shift", x * <1>)


class ToyBlock(up.ToyBlock):
    def step(self, x):
        return super().step(x) + shift(x)
# --- oracle modeling_toy.py
FACTOR = 3


def shift(x):
    return note("new shift", x * <1>)


class ToyBlock:
    def __init__(self, n=3):
        self.n = n

    def step(self, x):
        return shift(x) + self.n
# --- probe
obj = ToyBlock(2)
obj.step(3)

# === constant redefined
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
WIDTH = 2
AREA = WIDTH * 10


class ToyBlock:
    width = WIDTH

    def area(self, factor=AREA):
        return factor, AREA, self.width
# --- modular_neo.py
from . import modeling_toy as up

WIDTH = <1> + 20


class ToyBlock(up.ToyBlock):
    def area(self):
        return super().area(), WIDTH
# --- oracle modeling_toy.py
WIDTH = <1> + 20
AREA = WIDTH * 10


class ToyBlock:
    width = WIDTH

    def area(self, factor=AREA):
        return factor, AREA, self.width
# --- probe
ToyBlock().area()

# === redefined function needs a new helper
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
FACTOR = 3


def shift(x):
    return note("shift", x + FACTOR)


class ToyBlock:
    def __init__(self, n=3):
        self.n = n

    def step(self, x):
        return shift(x) + self.n
# --- modular_neo.py
import math as maths

from . import modeling_toy as up

SCALE = <1>


def helper(x):
    return maths.floor(x * SCALE + 0.5)


def shift(x):
    return helper(x)


class ToyBlock(up.ToyBlock):
    def step(self, x):
        return super().step(x) + 1
# --- oracle modeling_toy.py
import math as maths

SCALE = <1>


def helper(x):
    return maths.floor(x * SCALE + 0.5)


def shift(x):
    return helper(x)


class ToyBlock:
    def __init__(self, n=3):
        self.n = n

    def step(self, x):
        return shift(x) + self.n
# --- probe
ToyBlock(2).step(3)
