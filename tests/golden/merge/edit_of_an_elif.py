"""An `elif` is an `if` alone under `else:`: it is matched with the branches below it, and written as one where it can be."""
# --- parent
class P:
    def deleted(self, x):
        if x == 1:
            return "a"
        elif x == 2:
            return "b"
        return "c"
    def replaced_by_statements(self, x):
        if x == 1:
            y = "a"
        # two
        elif x == 2:
            y = "b"  # b
        return x
    def replaced_by_an_if(self, x):
        if x == 1:
            return "a"
        elif x == 2:
            return "b"
        elif x == 3:
            return "c"
        else:
            return "d"
# --- modular
from patchgen.edits import Hole, edit, new, old
class C(P):
    @edit("deleted")
    def a(self, x):
        with old:
            if x == 2:
                return "b"
        with new:
            pass
    @edit("replaced_by_statements")
    def b(self, x, y):
        with old:
            if x == 2:
                y = "b"
        with new:
            # said
            y = "B"
            x += 1
    @edit("replaced_by_an_if")
    def c(self, x):
        with old:
            if x == 3:
                return "c"
            else:
                return "d"
        with new:
            # three or four
            if x in (3, 4):
                return "C"
# --- flat
class C:
    def deleted(self, x):
        if x == 1:
            return "a"
        return "c"
    def replaced_by_statements(self, x):
        if x == 1:
            y = "a"
        else:
            # two
            # said
            y = "B"
            x += 1
        return x
    def replaced_by_an_if(self, x):
        if x == 1:
            return "a"
        elif x == 2:
            return "b"
        # three or four
        elif x in (3, 4):
            return "C"
