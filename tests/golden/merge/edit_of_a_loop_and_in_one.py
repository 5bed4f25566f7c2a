"""`break` and `continue` in a loop that is replaced, and in parts of one, below `while ...:`; `yield` and `return` anywhere."""
# --- parent
class P:
    def part(self, xs):
        done = []
        for x in xs:
            if x == 2:
                # why
                continue
            done.append(x)
        return done
    def inner(self, xs):
        done = []
        while xs:
            x = xs.pop()
            done.append(x)
        else:
            done.append("else")
        return done
# --- modular
from patchgen.edits import edit, new, old
class C(P):
    @edit("part")
    def b(self, x, done):
        """`while ...:` is a loop around both parts, which is not a part of the edit."""
        while ...:
            with old:
                continue
            with new:
                done.append(-x)
                break
    @edit("inner")
    def c(self, x, done):
        while ...:
            with old:
                done.append(x)
            with new:
                if x == 1:
                    continue
                done.append(x)
# --- flat
class C:
    def part(self, xs):
        done = []
        for x in xs:
            if x == 2:
                # why
                done.append(-x)
                break
            done.append(x)
        return done
    def inner(self, xs):
        done = []
        while xs:
            x = xs.pop()
            if x == 1:
                continue
            done.append(x)
        else:
            done.append("else")
        return done
