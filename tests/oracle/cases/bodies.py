# Method bodies that may not simply be put into one another.
# The format is told in ../traps.py.

# === local names clash
# --- parent
def <M>(self, a):
    x = a * <1>
    y = x + 1
    self.n += y
    return y
# --- child
def <M>(self, a):
    x = 100
    super().<M>(a)
    y = x + a
    return x, y
# --- calls
obj.<M>(1)
obj.<M>(5)

# === parameter rebound by the parent
# --- parent
def <M>(self, a):
    a = a * <1>
    self.n += a
# --- child
def <M>(self, a):
    super().<M>(a)
    return a
# --- calls
obj.<M>(2)

# === parameter rebound by the child
# --- parent
def <M>(self, a):
    self.n += a
    return a
# --- child
def <M>(self, a):
    a += <1>
    super().<M>(a)
    a += 1
    return super().<M>(a) + a
# --- calls
obj.<M>(2)

# === parent parameter named like a child local
# --- parent
def <M>(self, value):
    value += 1
    self.n = value
# --- child
def <M>(self, x):
    value = <1>
    super().<M>(x)
    return value
# --- calls
obj.<M>(2)

# === child local hides the parent's global
# --- parent
def <M>(self, a):
    return shift(a) + FACTOR
# --- child
def <M>(self, a):
    shift = <1>
    FACTOR = 50
    out = super().<M>(a)
    return out + shift + FACTOR
# --- calls
obj.<M>(2)

# === child binds the parent's global later
# --- parent
def <M>(self, a):
    self.n = shift(a)
# --- child
def <M>(self, a):
    super().<M>(a)
    shift = <1>
    return shift
# --- calls
obj.<M>(2)

# === parameter hides the parent's global
# --- parent
def <M>(self, a):
    self.n = shift(a)
# --- child
def <M>(self, shift):
    super().<M>(shift)
    return shift
# --- calls
obj.<M>(2)

# === locals()
# --- parent
def <M>(self, a, b=<1>):
    x = 3
    return sorted(locals())
# --- child
def <M>(self, a):
    y = 5
    return super().<M>(a)
# --- calls
obj.<M>(2)

# === locals() as a statement
# --- parent
def <M>(self, a, b=<1>):
    x = 3
    self.seen = sorted(locals())
# --- child
def <M>(self, a):
    y = 5
    super().<M>(a)
    return self.seen
# --- calls
obj.<M>(2)

# === locals() beside super
# --- parent
def <M>(self, a, b=<1>):
    return a + b
# --- child
def <M>(self, a):
    self.seen = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
    self.all = sorted(locals())
    return super().<M>(a)
# --- calls
obj.<M>(2)

# === the name of the inherited method
# --- parent
def <M>(self, a, b=<1>):
    return a + b
# --- child
def <M>(self, a):
    return super().<M>(a), super().<M>.__name__, super().<M>.__qualname__.count("<M>")
# --- calls
obj.<M>(2)

# === closure over a local that the child rebinds
# --- parent
def <M>(self, a):
    x = a
    self.f = lambda: x
# --- child
def <M>(self, a):
    super().<M>(a)
    x = <1> + 100
    return self.f(), x
# --- calls
obj.<M>(2)

# === closure over a parameter
# --- parent
def <M>(self, a):
    self.f = lambda: a
# --- child
def <M>(self, a):
    super().<M>(a)
    a = <1> + 100
    return self.f(), a
# --- calls
obj.<M>(2)

# === nonlocal
# --- parent
def <M>(self, a):
    x = 0
    def bump():
        nonlocal x
        x += a
    bump()
    bump()
    self.n = x
# --- child
def <M>(self, a):
    x = <1>
    super().<M>(a)
    return x, self.n
# --- calls
obj.<M>(2)

# === class and def in the parent's body
# --- parent
def <M>(self, a):
    class Local:
        v = a
    def helper(a):
        return a + Local.v
    self.n = helper(1)
# --- child
def <M>(self, a):
    helper = <1>
    super().<M>(a)
    return helper, self.n
# --- calls
obj.<M>(2)

# === exception name
# --- parent
def <M>(self, a):
    try:
        1 // a
    except ZeroDivisionError as e:
        self.n = str(e)
# --- child
def <M>(self, a):
    e = <1>
    super().<M>(a)
    return e
# --- calls
obj.<M>(0)
obj.<M>(1)

# === walrus in a comprehension
# --- parent
def <M>(self, a):
    self.items = [y := i + a for i in range(2)]
    self.n = y
# --- child
def <M>(self, a):
    y = i = <1>
    super().<M>(a)
    return y, i, self.n
# --- calls
obj.<M>(2)

# === parameter deleted
# --- parent
def <M>(self, a):
    b = a
    del a
    self.n = b
# --- child
def <M>(self, a):
    super().<M>(a)
    return a + <1>
# --- calls
obj.<M>(2)

# === self by another name
# --- parent
def <M>(this, a):
    this.n += a
    return this.n
# --- child
def <M>(me, a):
    this = <1>
    return super().<M>(a) + me.n + this
# --- calls
obj.<M>(2)

# === self rebound
# --- parent
def <M>(self, a):
    self.n += a
    self = None
    return self
# --- child
def <M>(self, a):
    super().<M>(a)
    return self.n
# --- calls
obj.<M>(2)

# === early return before a side effect
# --- parent
def <M>(self, a):
    if a > 3:
        return
    self.n += a
# --- child
def <M>(self, a):
    super().<M>(a)
    self.items.append(a)
    return self.n
# --- calls
obj.<M>(2)
obj.<M>(7)

# === return inside try, with and loop
# --- parent
def <M>(self, a):
    for i in range(a):
        with tracked(i):
            try:
                if i == <1>:
                    return i
            finally:
                self.n += 1
    return -1
# --- child
def <M>(self, a):
    i = super().<M>(a)
    return i, self.n
# --- calls
obj.<M>(2)
obj.<M>(9)

# === all paths return
# --- parent
def <M>(self, a):
    if a > <1>:
        return 1
    else:
        return self.n
# --- child
def <M>(self, a):
    return super().<M>(a) if a else super().<M>(9)
# --- calls
obj.<M>(0)
obj.<M>(2)
obj.<M>(9)

# === bare return and None
# --- parent
def <M>(self, a):
    self.n = a
    return
# --- child
def <M>(self, a):
    out = super().<M>(a)
    return out is None, super().<M>(a)
# --- calls
obj.<M>(2)

# === falls off the end
# --- parent
def <M>(self, a):
    self.n += a
# --- child
def <M>(self, a):
    return super().<M>(a + 1)
# --- calls
obj.<M>(2)

# === code after the returned call
# --- parent
def <M>(self, a):
    return a + <1>
# --- child
def <M>(self, a):
    return super().<M>(a)
    note('never')
# --- calls
obj.<M>(2)

# === recursion
# --- parent
def <M>(self, a):
    return 1 if a < 1 else a * self.<M>(a - 1)
# --- child
def <M>(self, a):
    note('r', a)
    return super().<M>(a) + <1>
# --- calls
obj.<M>(3)

# === decorated method of the parent
# --- parent
@logged
@plus(<1>)
def <M>(self, a):
    return self.n + a
# --- child
def <M>(self, a):
    return super().<M>(a) * 2
# --- calls
obj.<M>(3)

# === decorated method as a statement
# --- parent
@logged
def <M>(self, a):
    self.n += a
# --- child
def <M>(self, a):
    super().<M>(a)
    return self.n
# --- calls
obj.<M>(3)

# === decorator of the child
# --- parent
@logged
def <M>(self, a):
    return self.n + a
# --- child
@plus(<1>)
def <M>(self, a):
    return super().<M>(a) * 2
# --- calls
obj.<M>(3)

# === decorator dropped by an override
# --- parent
@plus(<1>)
def <M>(self, a):
    return a
# --- child
def <M>(self, a):
    return a
# --- calls
obj.<M>(3)

# === default that the parent evaluated
# --- parent
def <M>(self, a, b=note('default', FACTOR)):
    return a + b
# --- child
def <M>(self, a):
    return super().<M>(a)
# --- calls
obj.<M>(3)
obj.<M>(4)

# === default over a class attribute
# --- parent
size = <1>
def <M>(self, a, b=size):
    return a + b
# --- child
size = <2> + 10
def <M>(self, a):
    return super().<M>(a) + self.size
# --- calls
obj.<M>(3)

# === mutable default shared
# --- parent
def <M>(self, a, seen=[]):
    seen.append(a)
    self.n = len(seen)
# --- child
def <M>(self, a):
    super().<M>(a)
    return self.n
# --- calls
obj.<M>(3)
obj.<M>(3)
CHILD(1).<M>(2)

# === argument evaluated once
# --- parent
def <M>(self, a):
    return a + a * <1>
# --- child
def <M>(self, a):
    return super().<M>(note('arg', a)) + 1
# --- calls
obj.<M>(3)

# === argument that the parent never reads
# --- parent
def <M>(self, a, b):
    return a
# --- child
def <M>(self, a):
    return super().<M>(a, note('arg', a))
# --- calls
obj.<M>(3)

# === argument that changes what the parent reads
# --- parent
def bump(self):
    self.n += 1
    return self.n
def <M>(self, a, b):
    return self.n * 100 + a * 10 + b
# --- child
def <M>(self, a):
    return super().<M>(self.bump(), self.bump()) + self.n
# --- calls
obj.<M>(3)

# === argument read after the parent changed it
# --- parent
def <M>(self, a):
    self.n += 10
    return a + self.n
# --- child
def <M>(self):
    super().<M>(self.n)
    return super().<M>(self.n) + self.n
# --- calls
obj.<M>()

# === wrong number of arguments
# --- parent
def <M>(self, a, b):
    return a + b
# --- child
def <M>(self, a):
    try:
        return super().<M>(a)
    except TypeError:
        return -1
# --- calls
obj.<M>(3)

# === unknown keyword
# --- parent
def <M>(self, a):
    return a
# --- child
def <M>(self, a, b=<1>):
    try:
        return super().<M>(a, b=b)
    except TypeError:
        return -1
# --- calls
obj.<M>(3)

# === string with braces and escapes
# --- parent
def <M>(self, a):
    self.s = f'{a!r:>{self.n}} {{x}} \\n'
    return self.s
# --- child
def <M>(self, a):
    s = super().<M>(a)
    return s + """
    kept
  as is"""
# --- calls
obj.<M>(3)

# === multi-line string inlined deeper
# --- parent
def <M>(self, a):
    self.s = """one
  two
      three"""
    self.n += len(self.s)
# --- child
def <M>(self, a):
    if a:
        with tracked(1):
            super().<M>(a)
    return self.s
# --- calls
obj.<M>(3)

# === docstrings in both
# --- parent
def <M>(self, a):
    """Of the parent."""
    self.n += a
# --- child
def <M>(self, a):
    """Of the child."""
    super().<M>(a)
    return self.n
# --- calls
obj.<M>(3)
CHILD.<M>.__doc__

# === docstring in the parent alone
# --- parent
def <M>(self, a):
    """Of the parent."""
    self.n += a
# --- child
def <M>(self, a):
    super().<M>(a)
    return self.n
# --- calls
obj.<M>(3)
CHILD.<M>.__doc__

# === isinstance of the parent
# --- parent
def <M>(self, a):
    return isinstance(a, OWNER)
# --- child
def <M>(self, a):
    return super().<M>(a), isinstance(a, PARENT), isinstance(self, PARENT), isinstance(3, PARENT)
# --- calls
obj.<M>(obj)
obj.<M>(3)

# === parent constructed by name
# --- parent
def <M>(self, a):
    return OWNER(a).n
# --- child
def <M>(self, a):
    return super().<M>(a) + CHILD(a + 1).n
# --- calls
obj.<M>(3)

# === lambda and nested def that use self
# --- parent
def <M>(self, a):
    f = lambda x: x + self.n
    def g(x):
        return f(x) * <1>
    self.n = g(a)
# --- child
def <M>(self, a):
    f = g = 1
    super().<M>(a)
    return f, g, self.n
# --- calls
obj.<M>(3)

# === helper of the same name as the hoisted
# --- parent
def <M>(self, a):
    return a + <1>
def _<M>_of_OWNER(self, a):
    return -1
# --- child
def <M>(self, a):
    out = super().<M>(a)
    return out * 2 + self._<M>_of_OWNER(a)
# --- calls
obj.<M>(3)

# === two levels of return values
# shapes: single, kept, composite
# --- parent
def <M>(self, a):
    return self.n, a
# --- child
def <M>(self, a):
    n, b = super().<M>(a)
    (c, [d, *e]) = b, [n, n]
    return n + b, c, d, e
# --- calls
obj.<M>(3)

# === conditional super
# --- parent
def <M>(self, a):
    self.n += a
    return self.n
# --- child
def <M>(self, a):
    if a > 3:
        super().<M>(a)
    elif a:
        return super().<M>(-a)
    else:
        x = super().<M>(1)
        return x
    return 'end'
# --- calls
obj.<M>(0)
obj.<M>(2)
obj.<M>(9)

# === cached method
# --- top
import functools
# --- parent
@functools.cache
def <M>(self, a):
    return note('computed', a)
# --- child
def <M>(self, a):
    return super().<M>(a) + <1>
# --- calls
obj.<M>(3)
obj.<M>(3)

# === cached property
# --- top
import functools
# --- parent
@functools.cached_property
def v(self):
    return note('computed', self.n)
# --- child
def m(self):
    return self.v + self.v + <1>
# --- calls
obj.m()
obj.v

# === context manager method
# --- top
import contextlib
# --- parent
@contextlib.contextmanager
def c(self, a):
    note('in')
    yield a + <1>
    note('out')
# --- child
def m(self, a):
    with super().c(a) as x, self.c(a) as y:
        return x + y
# --- calls
obj.m(3)

# === type comments and annotations
# --- parent
def <M>(self, a: 'OWNER | int', *rest: int, k: int = 2, **more: 'OWNER') -> 'OWNER | int':
    return k
# --- child
def <M>(self, a: int, *rest: int, k: int = 3, **more: int) -> int:
    return super().<M>(a, *rest, k=k, **more)
# --- calls
obj.<M>(3)
obj.<M>(3, 4, k=5, z=6)
