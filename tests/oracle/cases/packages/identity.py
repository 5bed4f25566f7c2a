# Whether a class is merged with its parents, or stays a subclass: everything that could tell.
# The format is told in ../../packages.py.

# === class state of a parent of two classes
# --- modeling_toy.py
class Base:
    made = 0
    items = []

    def __init__(self):
        type(self).made += 1
        self.items.append(1)
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    def total(self):
        return [self.made, len(self.items)]


class D(Base):
    def total(self):
        return [self.made, len(self.items)]
# --- probe
[C().total(), D().total(), C().total()]

# === a parent with two heirs asked for
# overrides: Layer
# --- modeling_toy.py
class Layer:
    tag = "p"


class Base:
    def ok(self, x):
        return isinstance(x, Layer)
# --- modular_neo.py
from . import modeling_toy as toy


class Layer(toy.Layer):
    tag = "c"


class Fast(toy.Layer):
    tag = "f"


def both():
    return [isinstance(x, toy.Layer) for x in (Layer(), Fast())]
# --- probe
both()

# === kept base before the parent
# --- modeling_toy.py
class Base:
    def hello(self):
        return "base"
# --- modular_neo.py
from .modeling_toy import Base


class C(Loud, Base):
    n = 1
# --- probe
C().hello()

# === dataclass frozen own setattr
# --- modeling_toy.py
from dataclasses import dataclass


@dataclass(frozen=True)
class Base:
    x: int = 1
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    def __setattr__(self, n, v):
        object.__setattr__(self, n, v)
# --- probe
(lambda c: (setattr(c, 'x', 4), c.x))(C(2))

# === dataclass fields both decorated
# --- modeling_toy.py
from dataclasses import dataclass


@dataclass(order=True)
class Base:
    x: int = 1
# --- modular_neo.py
from dataclasses import dataclass
from .modeling_toy import Base


@dataclass(order=True)
class C(Base):
    y: int = 2
# --- probe
[C(1) < C(2), str(C())]

# === cached decorator registers name
# --- modeling_toy.py
CACHE = {}


def memo(f):
    key = f.__name__

    def inner(self):
        CACHE.setdefault(key, []).append(1)
        return f(self)

    return inner


class Base:
    @memo
    def f(self):
        return 1
# --- modular_neo.py
from .modeling_toy import Base, CACHE


class C(Base):
    def f(self):
        return super().f() + 1

    def keys(self):
        self.f()
        return sorted(CACHE)
# --- probe
C().keys()

# === modular inherits modular asked
# --- modeling_toy.py
class Base:
    x = 1
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    y = 2


class D(C):
    z = 3


def kinds(o):
    return [isinstance(o, k) for k in (C, D)]
# --- probe
[kinds(D()), kinds(C())]

# === base by assignment
# --- modeling_toy.py
def make():
    class Inner:
        def f(self):
            return 4

    return Inner


Base = make()
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    def f(self):
        return super().f() + 1
# --- probe
C().f()
