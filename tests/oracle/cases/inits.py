# `__init__`: assignments and deletions behind the parent's, and calls at odd places.
# The format is told in ../traps.py.

# === init calls super first
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    self.w = n * <1>
# --- child
def __init__(self, n=3, extra=<2>):
    super().__init__(n)
    self.extra = extra
# --- calls
obj.w
obj.extra
CHILD(5, 6)
CHILD(n=7)

# === init calls super last
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    self.w = getattr(self, 'early', 0) + <1>
# --- child
def __init__(self, n=3):
    self.early = n * <2>
    super().__init__(n)
# --- calls
obj.w
obj.early

# === init calls super between
# --- parent
def __init__(self, n=3):
    size = n + <1>
    self.n = n
    self.items = [size]
# --- child
def __init__(self, n=3):
    size = n * 2
    super().__init__(size)
    self.size = size
# --- calls
obj.size
obj.items
CHILD(5)

# === init replaces an attribute
# --- parent
def __init__(self, n=3):
    self.n = n
    self.act = n * <1>
    self.items = []
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.act = <2>
# --- calls
obj.act
obj.items

# === init replaces an attribute by one that reads it
# --- parent
def __init__(self, n=3):
    self.n = n
    self.act = n * <1>
    self.items = []
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.act = (self.act, <2>)
# --- calls
obj.act

# === init replaces an attribute by one that reads a later one
# --- parent
def __init__(self, n=3):
    self.act = n * <1>
    self.n = n + 1
    self.items = [self.act]
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.act = self.n * <2>
# --- calls
obj.act
obj.items

# === init replaces an attribute that the parent reads
# --- parent
def __init__(self, n=3):
    self.n = n
    self.act = n * <1>
    self.items = [self.act]
    self.twice = self.act * 2
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.act = <2> * 100
# --- calls
obj.act
obj.twice
obj.items

# === init replaces an attribute that a method reads
# --- parent
def __init__(self, n=3):
    self.n = n
    self.act = n * <1>
    self.items = []
    self.setup()
def setup(self):
    self.items.append(self.act)
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.act = <2> * 100
# --- calls
obj.act
obj.items

# === init replaces an attribute made with a side effect
# --- parent
def __init__(self, n=3):
    self.n = n
    self.act = note('made', n)
    self.items = []
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.act = <2> * 100
# --- calls
obj.act

# === init replaces an attribute over a child's local
# --- parent
def __init__(self, n=3):
    self.n = n
    self.act = 0
    self.items = []
# --- child
def __init__(self, n=3):
    super().__init__(n)
    size = self.n * <1>
    self.act = size
    size += 1
    self.n = size
# --- calls
obj.act
obj.n

# === init replaces an attribute and the parent's local has its name
# --- parent
def __init__(self, n=3):
    act = n * <1>
    self.act = act
    self.n = n
    self.items = [act]
# --- child
def __init__(self, n=3):
    act = <2> * 100
    super().__init__(n)
    self.act = act
# --- calls
obj.act
obj.items

# === init replaces twice
# --- parent
def __init__(self, n=3):
    self.n = n
    self.act = 1
    self.act = self.act + <1>
    self.items = [self.act]
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.act = 5
    self.act = self.act * <2>
# --- calls
obj.act
obj.items

# === init replaces under a condition
# --- parent
def __init__(self, n=3):
    self.n = n
    if n > 2:
        self.act = <1>
    else:
        self.act = None
    self.items = []
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.act = <2>
    if n > 4:
        self.items = None
# --- calls
obj.act
CHILD(1)
CHILD(9)

# === init replaces one of a chain
# --- parent
def __init__(self, n=3):
    self.n = self.act = n * <1>
    self.a, self.b = 1, 2
    self.items = []
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.act = <2>
    self.b = 7
# --- calls
obj
CHILD(5)

# === init replaces under __setattr__
# shapes: single, chain, composite, mixin
# --- parent
def __setattr__(self, name, value):
    note('set', name)
    object.__setattr__(self, name, value)
def __init__(self, n=3):
    self.n = n
    self.act = 1
    self.items = []
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.act = <2>
# --- calls
obj.act

# === init replaces a property
# --- parent
@property
def act(self):
    return self._act
@act.setter
def act(self, value):
    note('set', value)
    self._act = value
def __init__(self, n=3):
    self.n = n
    self.act = 1
    self.items = []
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.act = <2>
# --- calls
obj.act

# === init replaces by a value with a side effect
# --- parent
def __init__(self, n=3):
    self.n = n
    self.act = 1
    self.items = [note('items')]
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.act = note('act', <2>)
# --- calls
obj.act

# === init replaces by a value over a changed argument
# --- parent
def __init__(self, n=3):
    self.act = 1
    n += <1>
    self.n = n
    self.items = []
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.act = n * 10
# --- calls
obj.act
obj.n

# === init deletes an attribute
# --- parent
def __init__(self, n=3):
    self.n = n
    self.gone = n * <1>
    self.items = []
# --- child
def __init__(self, n=3):
    super().__init__(n)
    del self.gone
    self.extra = <2>
# --- calls
hasattr(obj, 'gone')
obj.extra

# === init deletes an attribute that the parent reads
# --- parent
def __init__(self, n=3):
    self.n = n
    self.gone = n * <1>
    self.items = [self.gone]
# --- child
def __init__(self, n=3):
    super().__init__(n)
    del self.gone
# --- calls
hasattr(obj, 'gone')
obj.items

# === init deletes and sets again
# --- parent
def __init__(self, n=3):
    self.n = n
    self.gone = n * <1>
    self.items = []
# --- child
def __init__(self, n=3):
    super().__init__(n)
    del self.gone
    self.gone = <2>
# --- calls
obj.gone

# === init deletes what may not be there
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    if n > 2:
        self.gone = <1>
# --- child
def __init__(self, n=3):
    super().__init__(n)
    if hasattr(self, 'gone'):
        del self.gone
# --- calls
hasattr(obj, 'gone')
CHILD(1)

# === init does not call super
# shapes: single, chain, composite, mixin
# --- parent
def __init__(self, n=3):
    self.n = n
    self.gone = 1
    self.items = []
# --- child
def __init__(self, n=4):
    self.items = []
    self.n = n + <1>
# --- calls
obj.n
hasattr(obj, 'gone')

# === init skips the parent
# shapes: kept
# --- parent
def __init__(self, n=3):
    self.n = n
    self.gone = 1
    self.items = []
# --- child
def __init__(self, n=4):
    Module.__init__(self)
    self.items = []
    self.n = n + <1>
# --- calls
obj.n
hasattr(obj, 'gone')
obj.ready

# === init with another signature
# --- parent
def __init__(self, n=3, *, wide=False, **kwargs):
    self.n = n
    self.items = sorted(kwargs)
    self.wide = wide
# --- child
def __init__(self, n=3, depth=<1>, **kwargs):
    super().__init__(n, wide=depth > 2, **kwargs)
    self.depth = depth
# --- calls
obj.wide
CHILD(1, 9, z=3, a=4)
CHILD(n=1, depth=0)

# === init with keyword arguments passed on
# --- parent
def __init__(self, n=3, **kwargs):
    self.n = n
    self.items = []
    for key, value in kwargs.items():
        setattr(self, key, value)
# --- child
def __init__(self, n=3, **kwargs):
    kwargs.setdefault('mode', <1>)
    super().__init__(n, **kwargs)
    self.keys = sorted(kwargs)
# --- calls
obj.keys
CHILD(1, mode=2, z=3)

# === init under a condition
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
# --- child
def __init__(self, n=3):
    if n > 2:
        super().__init__(n + <1>)
    else:
        super().__init__(0)
    self.done = True
# --- calls
obj.n
CHILD(1)

# === init in a loop over the parent's parts
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    for i in range(n):
        self.items.append(i)
# --- child
def __init__(self, n=3):
    super().__init__(n)
    for i, item in enumerate(self.items):
        self.items[i] = item * <1>
# --- calls
obj.items

# === init returns early
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    if n > 4:
        return
    self.small = <1>
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.after = <2>
# --- calls
obj
CHILD(9)

# === init called again by another method
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.extra = <1>
def reset(self):
    super().__init__(<2>)
    return self.n
# --- calls
obj.reset()
obj.extra

# === init raises
# --- parent
def __init__(self, n=3):
    if n < 0:
        raise ValueError(f'n is {n}')
    self.n = n
    self.items = []
# --- child
def __init__(self, n=3):
    try:
        super().__init__(n)
    except ValueError as error:
        self.n = str(error)
        self.items = []
# --- calls
obj.n
CHILD(-2)

# === init value is read through a property in between
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    self.size = n
    self.total = self.width + <1>
@property
def width(self):
    return self.size * 10
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.size = <2>
# --- calls
obj.total
obj.size
obj.width

# === init value is set by a setter in between
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    self.size = n
    self.width = <1> * 10
@property
def width(self):
    return self.size * 10
@width.setter
def width(self, value):
    self.size = value // 10
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.size = <2>
# --- calls
obj.size
obj.width

# === init value is made of what a loop fills
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    self.count = 0
    for item in range(n):
        self.items.append(item * <1>)
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.count = len(self.items)
# --- calls
obj.count
obj.items

# === init value is made of what an alias changes
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = [3, 1, 2]
    self.first = None
    mine = self.items
    mine.sort()
    mine[1:] = [<1>]
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.first = tuple(self.items)
# --- calls
obj.first

# === init value is made of an argument that the parent changes
# --- parent
def __init__(self, n=3, options=None):
    self.n = n
    self.items = []
    self.kind = 'none'
    options = {} if options is None else options
    options.setdefault('kind', <1>)
    options['more'] = n
# --- child
def __init__(self, n=3, options=None):
    given = {'n': n} if options is None else options
    super().__init__(n, given)
    self.kind = sorted(given.items())
# --- calls
obj.kind

# === init value is made of a global that the parent counts
# --- top
COUNTED = {'made': 0}
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    self.number = -1
    COUNTED['made'] += <1>
def made(self):
    return COUNTED['made']
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.number = self.made()
# --- calls
obj.number
CHILD(4).number

# === init discarded value was given the object
# --- top
class Helper:
    def __init__(self, owner):
        owner.flag = <1>
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    self.helper = Helper(self)
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.helper = None
# --- calls
obj.flag
obj.helper

# === init discarded value counts its instances
# --- top
class Numbered:
    made = 0
    def __init__(self):
        Numbered.made += 1
        self.number = Numbered.made
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    self.part = Numbered()
    self.other = Numbered()
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.part = type(self.other)()
# --- calls
obj.part.number - obj.other.number

# === init in with and try
# --- parent
def __init__(self, n=3):
    with tracked('parent'):
        self.n = n
        self.items = []
    try:
        self.w = 12 // (n - 3)
    except ZeroDivisionError:
        self.w = <1>
    finally:
        self.items.append(self.w)
# --- child
def __init__(self, n=3):
    with tracked('child'):
        super().__init__(n)
        self.w = len(self.items) + <2>
# --- calls
obj.w
obj.items
CHILD(5).w

# === init with a walrus
# --- parent
def __init__(self, n=3):
    if (size := n + <1>) > 5:
        self.n = size
    else:
        self.n = n
    self.items = [size]
# --- child
def __init__(self, n=3):
    if (size := n * <2>) > 6:
        self.big = size
    super().__init__(n)
    self.n = (size, self.items)
# --- calls
obj.n
CHILD(1).n

# === init with nested functions that read later values
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    self.width = n
    def width():
        return self.width * <1>
    self.read = width
    self.early = width()
    self.late = lambda: self.width + n
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.width = <2>
    n = 100
# --- calls
obj.early
obj.read()
obj.late()

# === init returns early and the child sets anew
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    self.act = n
    if n > 4:
        return
    self.rest = self.act * <1>
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.act = <2>
# --- calls
obj.rest
CHILD(7).act
hasattr(CHILD(7), 'rest')

# === init hands keywords on and changes them
# --- parent
def __init__(self, n=3, **kwargs):
    self.n = n
    self.items = []
    self.size = kwargs.pop('size', <1>)
    self.rest = sorted(kwargs)
# --- child
def __init__(self, n=3, **kwargs):
    super().__init__(n, **kwargs)
    self.size = (self.size, sorted(kwargs))
# --- calls
obj.size
CHILD(3, size=5, extra=6).size
CHILD(3, size=5, extra=6).rest

# === init with a decorator
# --- parent
@logged
def __init__(self, n=3):
    self.n = n
    self.items = []
    self.act = n * <1>
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.act = <2>
# --- calls
obj.act

# === init of the child with a decorator
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    self.act = n * <1>
    self.more = self.act + 1
# --- child
@logged
def __init__(self, n=3):
    super().__init__(n)
    self.act = <2>
# --- calls
obj.act
obj.more

# === init deletes what a property reads
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    self.size = n * <1>
    self.total = self.double
@property
def double(self):
    return self.size * 2
# --- child
def __init__(self, n=3):
    super().__init__(n)
    del self.size
# --- calls
obj.total
obj.double

# === init deletes what a loop sets
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    for name in ('early', 'late'):
        setattr(self, name, n)
# --- child
def __init__(self, n=3):
    super().__init__(n)
    del self.early
# --- calls
obj.late
obj.early

# === init deletes what the dictionary holds
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    self.__dict__.update(early=n, late=<1>)
# --- child
def __init__(self, n=3):
    super().__init__(n)
    del self.early
# --- calls
obj.late
obj.early

# === init swaps two attributes
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    self.a = n
    self.b = <1>
# --- child
def __init__(self, n=3):
    super().__init__(n)
    self.a, self.b = self.b, self.a
    self.a = self.b + self.a
# --- calls
obj.a
obj.b

# === init keeps the order of attributes
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    self.eps = <1>
    self.weight = n
# --- child
def __init__(self, n=3):
    super().__init__(n)
    del self.eps
    self.eps = <2>
# --- calls
list(vars(obj))

# === init deletes what a decorator sets
# --- top
def marking(function):
    def wrapped(self, *args, **kwargs):
        self.early = <1>
        return function(self, *args, **kwargs)
    return wrapped
# --- parent
@marking
def __init__(self, n=3):
    self.n = n
    self.items = []
# --- child
def __init__(self, n=3):
    super().__init__(n)
    del self.early
# --- calls
obj.n
obj.early

# === init deletes what an alias sets
# --- parent
def __init__(self, n=3):
    self.n = n
    self.items = []
    me = self
    me.early = <1>
# --- child
def __init__(self, n=3):
    super().__init__(n)
    del self.early
# --- calls
obj.n
obj.early
