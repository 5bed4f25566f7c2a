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
