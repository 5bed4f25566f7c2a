"""What a class body makes of the lists, tables and numbers of its parents is written out."""
# --- bases
class Base:
    names = ["Base"]
# --- parent
class Q(Base):
    depth = -1
class P(Q):
    layers = ["Layer"]
    plan = {
        # both halves
        "up": "colwise",  # not gathered
        "down": "rowwise",
    }
    outputs = {"hidden": Output(Layer, index=1)}
    sizes = (1,)
# --- modular
class C(P):
    layers = P.layers + ["Mixer"]
    plan = {**P.plan, "down": "colwise", "mixer": "rowwise"}
    outputs = P.outputs | {"mixers": Mixer}
    sizes = (*P.sizes, 2)
    others = [name for name in P.layers if name != "Layer"]
    depth = P.depth ** 2
    names = P.names + ["C"]
    copied = dict(P.plan, mixer="rowwise")
    keys = [*P.plan, "mixer"]
    pair = tuple(P.plan)
    def f(self, size=P.depth):
        return size
# --- flat
class C(Base):
    depth = (-1) ** 2
    layers = ["Layer", "Mixer"]
    plan = {
        # both halves
        "up": "colwise",  # not gathered
         "down": "colwise", "mixer": "rowwise"}
    outputs = {"hidden": Output(Layer, index=1), "mixers": Mixer}
    sizes = (1, 2)
    others = [name for name in ["Layer"] if name != "Layer"]
    names = Base.names + ["C"]
    copied = {
        # both halves
        "up": "colwise",  # not gathered
         "down": "rowwise", "mixer": "rowwise"}
    keys = ['up', 'down', "mixer"]
    pair = ('up', 'down')
    def f(self, size=-1):
        return size
