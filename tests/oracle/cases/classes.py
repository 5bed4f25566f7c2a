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
