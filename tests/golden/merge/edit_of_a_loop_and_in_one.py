"""`break` and `continue` in a loop that is replaced, and in parts of one, below `while ...:`; `yield` and `return` anywhere."""
# --- parent
class P:
    def whole(self, xs):
        for x in xs:
            if x == 2:
                continue
            if x == 4:
                break
        return x
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
    def some(self, xs):
        for x in xs:
            yield x
# --- modular
from patchgen.edits import edit, new, old
class C(P):
    @edit("whole")
    def a(self, xs, x):
        with old:
            for x in xs:
                if x == 2:
                    continue
                if x == 4:
                    break
        with new:
            for x in xs:
                if x == 3:
                    break
                else:
                    continue
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
    @edit("some")
    def d(self, x):
        with old:
            yield x
        with new:
            if x == 3:
                return
            yield x
            yield from (x, x)
# --- flat
class C:
    def whole(self, xs):
        for x in xs:
            if x == 3:
                break
            else:
                continue
        return x
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
    def some(self, xs):
        for x in xs:
            if x == 3:
                return
            yield x
            yield from (x, x)
# --- edited
class P:
    def whole(self, xs):
        for x in xs:
            if x == 3:
                break
            else:
                continue
        return x
    def part(self, xs):
        done = []
        for x in xs:
            if x == 2:
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
    def some(self, xs):
        for x in xs:
            if x == 3:
                return
            yield x
            yield from (x, x)
# --- probe
print(C().whole([1, 2, 3, 4, 5]), C().part([1, 2, 3]), C().inner([1, 2, 3]), list(C().some([1, 2, 3, 4])))
