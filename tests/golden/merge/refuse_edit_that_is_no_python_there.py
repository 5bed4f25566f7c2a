"""What new code says must be possible at its place: `break` in a loop, `await` in a coroutine."""
# --- parent
class P:
    def f(self, x):
        for _ in x:
            pass
        y = x
        return y
    def g(self, x):
        return x
# --- modular
from patchgen.edits import edit, new, old
class C(P):
    @edit("f")
    def a(self, x, y):
        while ...:
            with old:
                y = x
            with new:
                break
    @edit("g")
    async def b(self, x):
        with old:
            return x
        with new:
            return await x
# --- error
# modular.py:8:13: PG306 P.f would not be valid Python after the edit of f: 'break' outside loop
#     hint: write under `with new:` only what can stand at that place of the method
# modular.py:14:9: PG306 P.g would not be valid Python after the edit of g: 'await' outside async function
#     hint: write under `with new:` only what can stand at that place of the method
