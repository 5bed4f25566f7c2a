"""F-strings whose text ends in a quote or a backslash before a brace, raw ones, and format specifications."""
# --- parent
class P:
    def f(self, x, w=5):
        a = f"""say "{x}" now"""
        b = f'''say '{x}' and ''' f"\{x}\\{x}"
        c = rf"\d{x}\{x}" fr'\'{x}'
        d = f"{x = }{x=!s}{x:>{w}}{x!r:<{w}}{{{x}}}{{}}"
        f = f"{'a'}\t{x}\x7b\u00e9\
{x}"
        return x * 2, a, b, c, d, f
# --- modular
from patchgen.edits import Hole, edit, new, old
class C(P):
    @edit("f")
    def e(self, x):
        with old:
            x * 2
        with new:
            x * 3
    @edit("f")
    def one(self, x, a):
        with old:
            a = f'say "{x}" now'
        with new:
            a = f"""sing "{x}" now"""
    @edit("f")
    def two(self, x, c):
        with old:
            c = f"\\d{x}\\{x}\\'{x}"
        with new:
            c = x
# --- flat
class C:
    def f(self, x, w=5):
        a = f"""sing "{x}" now"""
        b = f'''say '{x}' and ''' f"\{x}\\{x}"
        c = x
        d = f"{x = }{x=!s}{x:>{w}}{x!r:<{w}}{{{x}}}{{}}"
        f = f"{'a'}\t{x}\x7b\u00e9\
{x}"
        return x * 3, a, b, c, d, f
# --- edited
class P:
    def f(self, x, w=5):
        a = f"""sing "{x}" now"""
        b = f'''say '{x}' and ''' f"\{x}\\{x}"
        c = x
        d = f"{x = }{x=!s}{x:>{w}}{x!r:<{w}}{{{x}}}{{}}"
        f = f"{'a'}\t{x}\x7b\u00e9\
{x}"
        return x * 3, a, b, c, d, f
# --- probe
print(C().f(2))
