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
