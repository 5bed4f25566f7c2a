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

# === super of a method not overridden
# --- parent
def a(self, x):
    self.n += x
    return self.n * <1>
# --- child
def b(self, x):
    return super().a(x)
# --- calls
obj.a(<2>)
obj.b(<2>)

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

# === explicit parent as statement
# --- parent
def <M>(self, x):
    y = x
    self.n += y
# --- child
def <M>(self, y):
    PARENT.<M>(self, y)
    return self.n
# --- calls
obj.<M>(1)
obj.<M>(2)

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

# === explicit parent as a value
# --- parent
def a(self, x):
    return x + <1>
# --- child
def a(self, x):
    f = PARENT.a
    return f(self, x) * 2
b = PARENT.a
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

# === class attribute through the parent's name
# --- parent
size = <1>
def a(self):
    return self.size
# --- child
size = PARENT.size + <2>
def a(self):
    return PARENT.size * 100 + self.size
# --- calls
obj.a()
CHILD.size

# === instance attribute changed around super
# --- parent
def a(self):
    return self.n * <1>
# --- child
def a(self):
    old, self.n = self.n, <2>
    try:
        return super().a()
    finally:
        self.n = old
# --- calls
obj.a()

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

# === property becomes a method
# --- parent
@property
def v(self):
    return self.n
# --- child
def v(self, x):
    return super().v + x
# --- calls
obj.v(1)
obj.v(2)

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

# === classmethod becomes a method
# --- parent
@classmethod
def make(cls, x):
    return (cls.__name__, x)
# --- child
def make(self, x):
    return (self.n, super().make(x))
# --- calls
obj.make(3)

# === super in __new__
# shapes: single, chain, composite, mixin
# --- parent
def __new__(cls, *args, **kwargs):
    made = super().__new__(cls)
    made.first = <1>
    return made
# --- child
def __new__(cls, *args, **kwargs):
    made = super().__new__(cls, *args, **kwargs)
    made.second = made.first + <2>
    return made
# --- calls
obj.first + obj.second

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

# === super in __setattr__
# --- parent
def __setattr__(self, name, value):
    note('set', name)
    super().__setattr__(name, value)
# --- child
def __setattr__(self, name, value):
    if name == 'n':
        value += <1>
    super().__setattr__(name, value)
# --- calls
obj.n
obj.n = 4
obj.n

# === super in __repr__ and __eq__
# --- parent
def __repr__(self):
    return f'<block {self.n}>'
def __eq__(self, other):
    return self.n == other.n
def __hash__(self):
    return self.n
# --- child
def __repr__(self):
    return super().__repr__() + '!'
def __eq__(self, other):
    return super().__eq__(other) and <1> > 2
def __hash__(self):
    return super().__hash__() + 1
# --- calls
repr(obj)
obj == CHILD(3)
hash(obj)
{obj: 1}[obj]

# === __eq__ takes the hash away
# --- parent
def __hash__(self):
    return <1>
# --- child
def __eq__(self, other):
    return self.n == other.n
# --- calls
obj == CHILD(3)
hash(obj)
CHILD.__hash__ is None

# === __hash__ set to None
# --- parent
def __hash__(self):
    return <1>
# --- child
__hash__ = None
# --- calls
hash(obj)
CHILD.__hash__ is None

# === super in __enter__ and __exit__
# --- parent
def __enter__(self):
    note('in')
    return self.n
def __exit__(self, kind, error, trace):
    note('out', str(error))
    return kind is ValueError
# --- child
def __enter__(self):
    return super().__enter__() + <1>
def __exit__(self, *error):
    note('child')
    return super().__exit__(*error)
def use(self, fail):
    with self as got:
        if fail:
            raise ValueError(got)
        return got
# --- calls
obj.use(False)
obj.use(True)

# === super in __iter__
# --- parent
def __iter__(self):
    yield <1>
    yield self.n
# --- child
def __iter__(self):
    yield 0
    yield from super().__iter__()
# --- calls
list(obj)
sum(obj)

# === super in __init_subclass__
# --- parent
def __init_subclass__(cls, **kwargs):
    super().__init_subclass__(**kwargs)
    cls.sub = <1>
# --- child
def late(self):
    return getattr(type(self), 'sub', None)
# --- calls
obj.late()
CHILD.sub

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

# === asynchronous with and for
# --- parent
async def g(self, k):
    async with self as x:
        return x + k
async def __aenter__(self):
    return <1>
async def __aexit__(self, *error):
    note('aexit')
# --- child
async def g(self, k):
    x = await super().g(k)
    return x + <2>
async def __aenter__(self):
    return (await super().__aenter__()) + 1
# --- calls
run(obj.g(3))

# === coroutine from a plain method
# --- parent
async def g(self, x):
    note('g')
    return x + <1>
# --- child
def g(self, x):
    note('plain')
    return super().g(x)
# --- calls
run(obj.g(3))

# === generator from a plain method
# --- parent
def g(self, x):
    note('started')
    yield x
    yield <1>
# --- child
def g(self, x):
    it = super().g(x)
    note('made')
    return list(it)
# --- calls
obj.g(3)

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
