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

# === argument evaluated once
# --- parent
def <M>(self, a):
    return a + a * <1>
# --- child
def <M>(self, a):
    return super().<M>(note('arg', a)) + 1
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
