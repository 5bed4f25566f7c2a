# Whether a class is merged with its parents, or stays a subclass: everything that could tell.
# The format is told in ../../packages.py.

# === exceptions caught through a constant
# overrides: Base
# --- modeling_toy.py
class ToyError(Exception):
    pass


CAUGHT = (ToyError, KeyError)


class Base:
    def risky(self):
        raise ToyError

    def run(self):
        try:
            self.risky()
        except CAUGHT:
            return "caught"
# --- modular_neo.py
from . import modeling_toy as toy


class Fancy(toy.ToyError):
    pass


class Base(toy.Base):
    def risky(self):
        raise Fancy
# --- probe
Base().run()

# === type and MRO asked for
# overrides: Base
# --- modeling_toy.py
class Layer:
    pass


class Base:
    def kind(self, x):
        return [type(x) is Layer, Layer in type(x).__mro__, issubclass(type(x), Layer)]
# --- modular_neo.py
from . import modeling_toy as toy


class Fast(toy.Layer):
    pass


class Base(toy.Base):
    def go(self):
        return self.kind(Fast())
# --- probe
Base().go()

# === handlers by the classes of an object
# --- modeling_toy.py
class A:
    pass


class B(A):
    pass


HANDLERS = {A: "a", B: "b"}


def handle(o):
    for cls in type(o).__mro__:
        if cls in HANDLERS:
            return HANDLERS[cls]
# --- modular_neo.py
from .modeling_toy import A, B, handle


class C(B):
    def me(self):
        return handle(self)


class D(A):
    def me(self):
        return handle(self)
# --- probe
[C().me(), D().me()]

# === virtual subclasses
# --- modeling_toy.py
from abc import ABC, abstractmethod


class Shape(ABC):
    @abstractmethod
    def area(self): ...
class Other:
    def area(self):
        return 9


Shape.register(Other)


def ask(x):
    return isinstance(x, Shape)
# --- modular_neo.py
from .modeling_toy import Shape, Other, ask


class C(Shape):
    def area(self):
        return 1

    def probe(self):
        return [ask(self), ask(Other())]


class D(Other):
    def probe(self):
        return ask(self)
# --- probe
[C().probe(), D().probe()]

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

# === shared default argument
# --- modeling_toy.py
class Base:
    def put(self, x, cache=[]):
        cache.append(x)
        return list(cache)
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    n = 1


class D(Base):
    n = 2
# --- probe
[C().put(1), D().put(2)]

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

# === parent made by modular
# overrides: Layer
# --- modeling_toy.py
class Layer:
    tag = "p"
# --- modular_neo.py
from . import modeling_toy as toy


class Layer(toy.Layer):
    tag = "c"

    def plain(self):
        return toy.Layer().tag
# --- probe
[Layer().plain(), Layer().tag]

# === late wrapper
# --- modeling_toy.py
class Base:
    def f(self):
        return 1


def wrapper(g):
    def inner(self):
        return g(self) + 10

    return inner


Base.f = wrapper(Base.f)
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    def f(self):
        return super().f() * 2
# --- probe
C().f()

# === late wrapper same name
# overrides: Base
# --- modeling_toy.py
class Base:
    def f(self):
        return 1


def wrapper(g):
    def inner(self):
        return g(self) + 10

    return inner


Base.f = wrapper(Base.f)
# --- modular_neo.py
from . import modeling_toy as toy


class Base(toy.Base):
    def f(self):
        return super().f() * 2
# --- probe
Base().f()

# === kept base that sees nothing
# --- modeling_toy.py
class Base(Loud):
    a = 1
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    b = 2
# --- probe
[C.a, C().loud]

# === init subclass in kept mixin order
# --- modeling_toy.py
class Mix:
    def __init_subclass__(cls, **k):
        super().__init_subclass__(**k)
        cls.order = getattr(cls, "order", ()) + (cls.__name__,)


class Base(Mix):
    pass
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    pass
# --- probe
list(C.order)

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

# === dataclass property in decorated child
# --- modeling_toy.py
from dataclasses import dataclass


@dataclass
class Base:
    x: int = 1
    y: int = 2
# --- modular_neo.py
from dataclasses import dataclass
from .modeling_toy import Base


@dataclass
class C(Base):
    z: int = 5

    @property
    def y(self):
        return 9

    @y.setter
    def y(self, v):
        pass
# --- probe
C(3).x
C(3, 4, 6).z
str(C(1))

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

# === dataclass own hash unsafe
# --- modeling_toy.py
from dataclasses import dataclass


@dataclass(unsafe_hash=True)
class Base:
    x: int = 1
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    def __hash__(self):
        return 77
# --- probe
hash(C(2))

# === dataclass post init added
# --- modeling_toy.py
from dataclasses import dataclass


@dataclass
class Base:
    x: int = 1
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    def __post_init__(self):
        self.x = 100
# --- probe
C(2).x

# === dataclass method over field merged field
# --- modeling_toy.py
from dataclasses import dataclass, field


@dataclass
class Base:
    x: int = 1
    items: list = field(default_factory=list)
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    def items(self):
        return 3
# --- probe
[C().x, C().items]

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

# === dataclass child plain order
# --- modeling_toy.py
from dataclasses import dataclass


@dataclass(order=True)
class Base:
    x: int = 1
# --- modular_neo.py
from dataclasses import dataclass
from .modeling_toy import Base


@dataclass
class C(Base):
    y: int = 2
# --- probe
C(1) < C(2)

# === descriptor set_name not overridden
# --- modeling_toy.py
class Field:
    def __set_name__(self, owner, name):
        self.owner = owner.__name__
        self.name = name

    def __get__(self, o, t=None):
        return self.owner + self.name


class Base:
    size = Field()
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    n = 1
# --- probe
C.size

# === descriptor instance by name
# --- modeling_toy.py
class Field:
    def __set_name__(self, owner, name):
        self.owner = owner.__name__
        self.name = name

    def __get__(self, o, t=None):
        return self.owner + self.name


FIELD = Field()


class Base:
    size = FIELD
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    n = 1
# --- probe
C.size

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

# === functools decorators in chain
# --- modeling_toy.py
import functools


class Base:
    @functools.lru_cache
    def f(self, x):
        return [x]

    @functools.cached_property
    def g(self):
        return object()
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    def f(self, x):
        return super().f(x)

    @property
    def h(self):
        return super().g
# --- probe
(lambda c: [c.f(1) is c.f(1), c.h is c.h, sorted(vars(c))])(C())

# === cached property overridden
# --- modeling_toy.py
import functools


class Base:
    @functools.cached_property
    def g(self):
        return [1]
# --- modular_neo.py
import functools
from .modeling_toy import Base


class C(Base):
    @functools.cached_property
    def g(self):
        return super().g + [2]
# --- probe
(lambda c: [c.g, c.g is c.g, sorted(vars(c))])(C())

# === prefix methods by dir in helper function
# --- modeling_toy.py
def collect(o):
    return [getattr(o, n)() for n in dir(o) if n.startswith("_test")]


class Base:
    def _test_a(self):
        return 1
# --- modular_neo.py
from .modeling_toy import Base, collect


class C(Base):
    def _test_a(self):
        y = super()._test_a()
        return y + 1

    def all(self):
        return collect(self)
# --- probe
C().all()

# === methods by vars of type
# --- modeling_toy.py
class Base:
    def visit_a(self):
        return 1

    def visit_b(self):
        return 2

    def own(self):
        return sorted(n for n in vars(type(self)) if n.startswith("visit_"))
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    def visit_b(self):
        return super().visit_b()
# --- probe
C().own()

# === methods by class dict name
# --- modeling_toy.py
class Base:
    a = 1

    def own(self):
        return sorted(k for k in self.__class__.__dict__ if len(k) == 1)
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    b = 1
# --- probe
C().own()

# === getattr dispatch by name
# --- modeling_toy.py
class Base:
    def visit_x(self):
        return "x"

    def go(self, n):
        return getattr(self, "visit_" + n, None)
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    def visit_x(self):
        r = super().visit_x()
        return r * 2
# --- probe
[C().go('x')(), C().go('y')]

# === class body call order
# --- modeling_toy.py
N = iter(range(100))


def tick():
    return next(N)


class Base:
    a = tick()
    b = tick()
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    a = "own"
# --- probe
[C.a, C.b]

# === parent twice with different heirs
# --- modeling_toy.py
class Base:
    def who(self):
        return type(self).__name__


class Pair:
    left = Base

    def make(self):
        return self.left()
# --- modular_neo.py
from .modeling_toy import Base, Pair


class C(Base):
    def who(self):
        return "C" + super().who()


class P(Pair):
    left = C

    def both(self):
        return [self.make().who(), super().left().who(), isinstance(self.make(), super().left)]
# --- probe
P().both()

# === singledispatchmethod
# --- modeling_toy.py
import functools


class Base:
    pass


class Other(Base):
    pass


class Visitor:
    @functools.singledispatchmethod
    def see(self, o):
        return "any"

    @see.register
    def _(self, o: Base):
        return "base"
# --- modular_neo.py
from .modeling_toy import Base, Visitor


class V(Visitor):
    extra = 1


class C(Base):
    def go(self):
        return V().see(self)
# --- probe
C().go()

# === match class pattern
# --- modeling_toy.py
class Point:
    __match_args__ = ("x",)

    def __init__(self, x):
        self.x = x


def where(p):
    match p:
        case Point(x):
            return x
    return None
# --- modular_neo.py
from .modeling_toy import Point, where


class Deep(Point):
    def go(self):
        return where(self)
# --- probe
Deep(4).go()

# === chain of two parents asked for the far one
# --- modeling_toy.py
class Root:
    pass


class Mid(Root):
    def f(self):
        return 1


def is_root(o):
    return isinstance(o, Root)
# --- modular_neo.py
from .modeling_toy import Mid, is_root


class C(Mid):
    def ask(self):
        return is_root(self)
# --- probe
C().ask()

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

# === same name late store hidden by the child
# overrides: Base
# --- modeling_toy.py
class Base:
    scale = 1

    def get(self):
        return super().__getattribute__("scale")


Base.scale = 3
# --- modular_neo.py
from . import modeling_toy as toy


class Base(toy.Base):
    scale = 5

    def both(self):
        return [super().scale, self.scale]
# --- probe
Base().both()

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

# === base is an alias
# --- modeling_toy.py
class Base:
    def f(self):
        return 1


Alias = Base
# --- modular_neo.py
from .modeling_toy import Alias


class C(Alias):
    def f(self):
        return super().f() + 1
# --- probe
C().f()

# === overriding class attribute with __class__ lookups
# --- modeling_toy.py
class Base:
    table = {}

    def put(self, k):
        self.table[k] = type(self).__name__
        return sorted(self.table)
# --- modular_neo.py
from . import modeling_toy as toy


class A(toy.Base):
    pass


class B(toy.Base):
    n = 1
# --- probe
[A().put('a'), B().put('b')]

# === same name and other heir share table
# overrides: Base
# --- modeling_toy.py
class Base:
    table = {}

    def put(self, k):
        self.table[k] = 1
        return sorted(self.table)
# --- modular_neo.py
from . import modeling_toy as toy


class Base(toy.Base):
    m = 1


class B(toy.Base):
    n = 1
# --- probe
[Base().put('a'), B().put('b')]

# === context vars exceptions with args
# --- modeling_toy.py
class Problem(ValueError):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


def guard(f):
    try:
        return f()
    except Problem as e:
        return e.code
# --- modular_neo.py
from .modeling_toy import Problem, guard


class Worse(Problem):
    def __init__(self, code):
        super().__init__(code + 1)


def boom():
    raise Worse(4)


def go():
    return guard(boom)
# --- probe
go()

# === exceptions not caught anywhere stays merged
# --- modeling_toy.py
class Problem(ValueError):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code
# --- modular_neo.py
from .modeling_toy import Problem


class Worse(Problem):
    def __init__(self, code):
        super().__init__(code + 1)


def go():
    try:
        raise Worse(3)
    except ValueError as e:
        return [str(e), e.code]
# --- probe
go()

# === a method that the class body registers with
# --- modeling_toy.py
from functools import singledispatchmethod


class Base:
    @singledispatchmethod
    def show(self, x):
        return "any"

    @show.register
    def _(self, x: int):
        return "int"
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    def show(self, x):
        return "C" + super().show(x)


class D(Base):
    @Base.show.register(str)
    def _(self, x):
        return "str"
# --- probe
[C().show(1), C().show("s"), D().show(1), D().show("s")]

# === a class of the file between a mixin and a parent
# --- modeling_toy.py
class Root:
    def f(self):
        return ["root"]


class Base(Root):
    def f(self):
        return ["base", *super().f()]


class Mix(Root):
    def f(self):
        return ["mix", *super().f()]
# --- modular_neo.py
from .modeling_toy import Base, Mix


class C(Base):
    def f(self):
        return ["C", *super().f()]


class D(C, Mix):
    def f(self):
        return ["D", *super().f()]
# --- probe
[C().f(), D().f()]

# === the name and the docstring that a member has
# --- modeling_toy.py
import inspect


class Base:
    def f(self):
        """Documented."""
        return inspect.getdoc(self.f), inspect.currentframe().f_code.co_name

    def name(self):
        return self.f.__func__.__qualname__.partition(".")[2]
# --- modular_neo.py
from .modeling_toy import Base


class C(Base):
    def f(self):
        found = super().f()
        return [*found, self.name()]
# --- probe
C().f()

# === super that begins at the parents of another class
# classes: Mid, Leaf
# --- modeling_toy.py
class Base:
    def f(self):
        return ["base"]


class Extra:
    def f(self):
        return ["extra", *super().f()]
# --- modular_neo.py
from . import modeling_toy as toy


class Mid(toy.Extra, toy.Base):
    def f(self):
        return ["mid", *super().f()]


class Leaf(Mid):
    def f(self):
        return ["leaf", *super().f(), *super(Mid, self).f()]


def skipping(x):
    return super(Mid, x).f()
# --- probe
Leaf().f()
Mid().f()
skipping(Leaf())

# === names of a class by its own name
# classes: Fancy
# --- modeling_toy.py
class Base:
    size = <1>

    def f(self):
        return 1
# --- modular_neo.py
from . import modeling_toy as toy


class Fancy(toy.Base):
    width = <2>

    def names(self):
        return [sorted(set(vars(Fancy)) & NAMES), sorted(set(Fancy.__dict__) & NAMES)]


NAMES = {"size", "f", "width", "names"}
# --- probe
Fancy().names()

# === a parent asked for its dictionary
# classes: Fancy
# --- modeling_toy.py
class Base:
    def f(self, x=1):
        return "base", x
# --- modular_neo.py
from . import modeling_toy as toy


class Fancy(toy.Base):
    def f(self, x=2):
        return [toy.Base.__dict__["f"](self, x), toy.Base.__name__, super().f()]
# --- probe
Fancy().f()[::2]

# === super under another name
# classes: Fancy, Other
# --- modeling_toy.py
class Base:
    def f(self):
        return "base"


class Plain:
    def f(self):
        return "plain"
# --- modular_neo.py
import builtins

from . import modeling_toy as toy

up = super


class Fancy(toy.Base):
    def f(self):
        return up(Fancy, self).f() + "<1>"


class Other(toy.Plain):
    def f(self):
        return builtins.super(Other, self).f() + "<2>"
# --- probe
Fancy().f()
Other().f()
