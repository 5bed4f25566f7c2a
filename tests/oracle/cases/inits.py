# `__init__`: assignments that take the place of the parent's, deletions, and calls at odd places.
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
