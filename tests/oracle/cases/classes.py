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
