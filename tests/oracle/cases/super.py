# What `super()` and the name of the parent can reach, and from what kind of member.
# The format is told in ../traps.py.

# === super of another method
# --- parent
def a(self, x):
    self.n += x
    return self.n
def b(self, x):
    return x * <1>
# --- child
def b(self, x):
    return super().a(x) + super().b(x)
def a(self, x):
    return -super().a(x)
# --- calls
obj.a(<2>)
obj.b(<2>)
obj.b(<3>)

# === super in a new method of an overridden one
# --- parent
def a(self, x):
    y = self.b(x)
    return y
def b(self, x):
    return x * <1>
# --- child
def b(self, x):
    return x * <2> + 100
def old_b(self, x):
    return super().b(x)
# --- calls
obj.a(<3>)
obj.b(<2>)
obj.old_b(<2>)

# === super of the calling name in a parent's other method
# --- parent
def a(self, x):
    return self.b(x) + 1
def b(self, x):
    return x
# --- child
def a(self, x):
    return super().a(x) * <1>
def b(self, x):
    return super().b(x) + <2>
# --- calls
obj.a(<3>)
obj.b(<3>)

# === explicit parent
# --- parent
def <M>(self, x, y=<1>):
    z = x + y
    return z
# --- child
def <M>(self, x, z=<2>):
    return PARENT.<M>(self, x, z) * 2
# --- calls
obj.<M>(1)
obj.<M>(2, 3)

# === explicit parent of another method
# --- parent
def a(self, x):
    return x + <1>
def b(self, x):
    return x - <2>
# --- child
def a(self, x):
    return PARENT.b(self, x)
def b(self, x):
    return PARENT.a(self, x)
# --- calls
obj.a(1)
obj.b(1)

# === bound super as a value
# --- parent
def a(self, x):
    self.n += 1
    return x + <1>
# --- child
def a(self, x):
    f = super().a
    return [f(x), *map(super().a, (1, 2))]
# --- calls
obj.a(1)
obj.a(<2>)

# === class attribute through super
# --- parent
size = <1>
def a(self):
    return self.size
# --- child
size = <2>
def a(self):
    return super().size * 100 + super().a()
# --- calls
obj.a()
CHILD.size

# === super in a property
# --- parent
@property
def v(self):
    return self.n * <1>
# --- child
@property
def v(self):
    return super().v + <2>
# --- calls
obj.v
obj.v + 1

# === super property from a method
# --- parent
@property
def v(self):
    x = self.n
    return x * <1>
# --- child
def m(self):
    x = 3
    return super().v + x
# --- calls
obj.m()
obj.v

# === property with setter, both overridden
# --- parent
@property
def v(self):
    return self.n
@v.setter
def v(self, value):
    self.n = value * <1>
# --- child
@property
def v(self):
    return super().v + 1
@v.setter
def v(self, value):
    self.n = value + <2>
# --- calls
obj.v
obj.v = 5
obj.v

# === property whose getter alone is overridden
# --- parent
@property
def v(self):
    return self.n
@v.setter
def v(self, value):
    self.n = value * <1>
# --- child
@property
def v(self):
    return self.n + 1
# --- calls
obj.v
obj.v = 5
obj.v

# === setter added to the parent's property
# --- parent
@property
def v(self):
    return self.n * <1>
# --- child
@PARENT.v.setter
def v(self, value):
    self.n = value
# --- calls
obj.v
obj.v = 5
obj.v

# === setter through the parent's property
# --- parent
@property
def v(self):
    return self.n
@v.setter
def v(self, value):
    self.n = value * <1>
# --- child
@property
def v(self):
    return PARENT.v.fget(self) + 1
@v.setter
def v(self, value):
    PARENT.v.fset(self, value + <2>)
# --- calls
obj.v
obj.v = 5
obj.v

# === super in a classmethod
# --- parent
size = <1>
@classmethod
def make(cls, x):
    y = cls.size
    return x + y
# --- child
size = <2>
@classmethod
def make(cls, x):
    y = super().make(x)
    return y * 2
# --- calls
CHILD.make(1)
obj.make(3)

# === super classmethod that constructs
# --- parent
@classmethod
def make(cls, x):
    return cls(x)
# --- child
@classmethod
def make(cls, x):
    made = super().make(x)
    made.extra = <1>
    return made
# --- calls
CHILD.make(1)
obj.make(3)

# === explicit parent of a staticmethod
# --- parent
@staticmethod
def s(x, y=<1>):
    return x * y
# --- child
@staticmethod
def s(x, y=<2>):
    return PARENT.s(x, y) + 1
# --- calls
obj.s(3)
CHILD.s(3, 4)

# === super of a staticmethod
# --- parent
@staticmethod
def s(x, y=<1>):
    return x * y
# --- child
def s(self, x):
    return super().s(x) + 1
# --- calls
obj.s(3)

# === super in __call__ and __getitem__
# --- parent
def __call__(self, x):
    return x + <1>
def __getitem__(self, key):
    return key * 2
def __len__(self):
    return <2>
def __contains__(self, x):
    return x == <1>
# --- child
def __call__(self, x):
    return super().__call__(x) * 2
def __getitem__(self, key):
    return self(super().__getitem__(key))
def __len__(self):
    return super().__len__() + 1
def __contains__(self, x):
    return not super().__contains__(x)
# --- calls
obj(1)
obj[3]
len(obj)
3 in obj
bool(obj)

# === super in __getattr__
# --- parent
def __getattr__(self, name):
    if name.startswith('x'):
        return <1>
    raise AttributeError(name)
# --- child
def __getattr__(self, name):
    if name == 'y':
        return <2>
    return super().__getattr__(name)
# --- calls
obj.xa
obj.y
obj.z
obj.n

# === __hash__ set to None
# --- parent
def __hash__(self):
    return <1>
# --- child
__hash__ = None
# --- calls
hash(obj)
CHILD.__hash__ is None

# === asynchronous generator
# --- parent
async def g(self, k):
    for x in range(k):
        yield x * <1>
# --- child
async def g(self, k):
    yield -1
    async for x in super().g(k):
        yield x + <2>
# --- calls
run(obj.g(3))

# === generator with send and throw
# --- parent
def g(self, x):
    try:
        got = yield x
        yield got * 2
    except ValueError as e:
        yield str(e)
# --- child
def g(self, x):
    got = yield from super().g(x + <1>)
    return got
# --- calls
[g := obj.g(3), next(g), g.send(5)][1:]
[g := obj.g(3), next(g), g.throw(ValueError('v'))][1:]
