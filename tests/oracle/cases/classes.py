# Class bodies, whose statements run in order and once.
# The format is told in ../traps.py.

# === class attributes
# --- parent
size = <1>
name: str = 'p'
both = [1]
def m(self):
    return self.size, self.name, self.both
# --- child
size = <2>
name: str = 'c'
extra = (3, 4)
# --- calls
obj.m()
CHILD.size
CHILD.extra

# === class attribute computed from another
# --- parent
size = <1>
half = size * 10
def m(self):
    return self.size, self.half
# --- child
size = <2> + 20
# --- calls
obj.m()

# === class attribute that reads a global of the same name
# --- parent
FACTOR = 100
# --- child
double = FACTOR * <1>
# --- calls
obj.double
obj.FACTOR

# === class attribute in the child reads a member of the parent by name
# --- parent
size = <1>
def other(self):
    return 1
# --- child
def other(self):
    return 2
size = [other, 5][1]
number = len([size])
# --- calls
obj.other()
obj.size
obj.number

# === method replaced by an attribute
# --- parent
def m(self):
    return 1
def k(self):
    return self.m
# --- child
m = <1>
# --- calls
obj.m
obj.k()

# === method set to None
# --- parent
def m(self):
    return 1
def k(self):
    return self.m is None
# --- child
m = None
# --- calls
obj.m
obj.k()
obj.m()

# === attribute replaced by a method
# --- parent
m = 3
def k(self):
    return callable(self.m)
# --- child
def m(self):
    return <1>
# --- calls
obj.m()
obj.k()

# === alias of a method
# --- parent
def impl(self, x):
    return x + <1>
forward = impl
# --- child
def impl(self, x):
    return x * 100
# --- calls
obj.impl(2)
obj.forward(2)

# === alias replaced
# --- parent
def impl(self, x):
    return x + <1>
forward = impl
# --- child
def forward(self, x):
    return self.impl(x) + super().forward(x)
# --- calls
obj.impl(2)
obj.forward(2)

# === method used in the class body
# --- parent
def impl(self, x):
    return x + <1>
table = {'impl': impl}
def m(self, x):
    return self.table['impl'](self, x)
# --- child
def impl(self, x):
    return super().impl(x) * 10
# --- calls
obj.impl(2)
obj.m(2)

# === static helper called in the class body
# --- parent
def _twice(x):
    return x * 2
size = _twice(<1>)
# --- child
def _twice(x):
    return x * 3
other = _twice(<2>)
# --- calls
obj.size
obj.other

# === private class attribute and keyword
# --- parent
def m(self, *, __k=<1>):
    return __k
# --- child
def m(self):
    return super().m() + 1
# --- calls
obj.m()

# === removed method
# removed: gone
# --- parent
def gone(self):
    return 1
def kept(self):
    return <1>
# --- child
def gone(self):
    raise AttributeError('not needed')
# --- calls
obj.kept()
hasattr(obj, 'gone')
hasattr(CHILD, 'gone')

# === removed attribute
# removed: gone
# --- parent
gone = <1>
stays = 2
def kept(self):
    return self.stays
# --- child
gone = AttributeError()
stays = 3
# --- calls
obj.kept()
hasattr(obj, 'gone')
obj.gone

# === removed method that another one asks for
# removed: gone
# --- parent
def gone(self):
    return 1
def kept(self):
    return self.gone() if hasattr(self, 'gone') else <1>
# --- child
def gone(self):
    raise AttributeError('not needed')
# --- calls
obj.kept()

# === removed property
# removed: gone
# --- parent
@property
def gone(self):
    return 1
@gone.setter
def gone(self, value):
    self.n = value
# --- child
@property
def gone(self):
    raise AttributeError('not needed')
# --- calls
hasattr(obj, 'gone')

# === removed dunder
# removed: __len__
# --- parent
def __len__(self):
    return 0
def kept(self):
    return <1>
# --- child
def __len__(self):
    raise AttributeError()
# --- calls
obj.kept()
hasattr(obj, '__len__')

# === dataclass with more fields
# shapes: single
# decorators: @dataclasses.dataclass
# child_decorators: @dataclasses.dataclass
# --- top
import dataclasses
# --- child_top
import dataclasses
# --- parent
n: int = 3
items: list = dataclasses.field(default_factory=list)
def m(self):
    return self.n
# --- child
extra: int = <1>
n: int = <2>
# --- calls
obj.m()
obj
CHILD(1, [2], 3)
obj == CHILD(3)

# === dataclass whose child is none
# shapes: single
# decorators: @dataclasses.dataclass
# --- top
import dataclasses
# --- child_top
import dataclasses
# --- parent
n: int = 3
items: list = dataclasses.field(default_factory=list)
def m(self):
    return self.n
# --- child
extra: int = <1>
# --- calls
obj.m()
obj.extra
CHILD(1, [2], 3)
[f.name for f in dataclasses.fields(CHILD)]

# === dataclass with __post_init__
# shapes: single
# decorators: @dataclasses.dataclass
# child_decorators: @dataclasses.dataclass
# --- top
import dataclasses
# --- child_top
import dataclasses
# --- parent
n: int = 3
items: list = dataclasses.field(default_factory=list)
def __post_init__(self):
    self.area = self.n * <1>
# --- child
wide: bool = False
def __post_init__(self):
    super().__post_init__()
    self.area += 1
# --- calls
obj.area
obj.wide
CHILD(1, wide=True)

# === abstract methods
# shapes: single
# keywords: metaclass=abc.ABCMeta
# --- top
import abc
# --- child_top
import inspect
# --- parent
@abc.abstractmethod
def m(self):
    return <1>
def k(self):
    return self.m()
# --- child
def m(self):
    return super().m() + <2>
# --- calls
obj.k()
inspect.isabstract(CHILD)

# === class annotations
# --- child_top
import typing
# --- parent
a: int
b: 'str' = 'x'
# --- child
c: float = 1.5
a: str
# --- calls
CHILD.b
CHILD.c
sorted(typing.get_type_hints(CHILD))

# === descriptor with __set_name__
# --- parent
field = Logged()
def m(self):
    self.field = <1>
    return self.field
# --- child
def m(self):
    return super().m() + 1
# --- calls
obj.m()

# === descriptor replaced
# --- parent
field = Logged()
def m(self):
    self.field = <1>
    return self.field
# --- child
field = Logged()
other = Logged()
# --- calls
obj.m()
obj.other

# === conditional members
# --- parent
if FACTOR > 2:
    def m(self):
        return <1>
else:
    def m(self):
        return -1
for _i in range(2):
    last = _i
# --- child
def m(self):
    return super().m() + <2>
# --- calls
obj.m()
obj.last

# === loop in the class body
# --- parent
total = 0
for _i in range(3):
    total += _i
names = [n for n in ('a', 'b')]
# --- child
total = <1>
names = [*'xy']
# --- calls
obj.total
obj.names

# === overload-like repeats
# --- parent
def m(self):
    return 1
def m(self):
    return 2
# --- child
def m(self):
    return super().m() + <1>
# --- calls
obj.m()

# === repeated attribute
# --- parent
size = 1
size = size + <1>
# --- child
other = <2>
# --- calls
obj.size
obj.other

# === comments and docstring
# --- parent
"""Of the parent."""
# about m
def m(self):  # trailing
    # inside
    return 1  # end
# at the end
# --- child
"""Of the child."""
# of the child
def m(self):
    # inside
    return super().m() + <1>
# --- calls
obj.m()
CHILD.__doc__

# === partial methods
# --- top
import functools
# --- child_top
import functools
# --- parent
def impl(self, k, x):
    return k * x
double = functools.partialmethod(impl, <1>)
# --- child
triple = functools.partialmethod(PARENT.impl, 3)
def m(self, x):
    return self.double(x) + self.triple(x)
# --- calls
obj.m(2)
obj.double(2)

# === operator in the class body
# --- parent
plans = {'a': 1, 'b': 2}
# --- child
plans = {**PARENT.plans, 'c': <1>}
# --- calls
obj.plans
CHILD.plans

# === strings that name classes
# --- parent
_no_split_modules = ['OWNER']
_other = {'OWNER.x': 'OWNERs', 'y': 'not OWNER here'}
# --- child
def m(self):
    return self._no_split_modules
# --- calls
obj.m()
