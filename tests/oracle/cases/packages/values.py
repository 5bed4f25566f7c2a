# What class attributes hold: lists and tables that are changed, and whose they are then.
# The format is told in ../../packages.py.

# === item of a table set below, and read by the child
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
def change(table):
    table["late"] = <3>


def fill():
    ToyBlock.table["filled"] = <3>


class ToyBlock:
    table = {"a": <1>}
    keys = ["a"]

    @classmethod
    def register(cls, name):
        cls.table[name] = len(cls.table)

    def up(self):
        return self.table


ToyBlock.table["late"] = <2>
# --- modular_neo.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    table = {**toy.ToyBlock.table, "b": 2}
    keys = toy.ToyBlock.keys + ["b"]
# --- probe
ToyBlock.table, ToyBlock.keys
ToyBlock().up()

# === item of a table set below, and replaced by the child
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
def change(table):
    table["late"] = <3>


def fill():
    ToyBlock.table["filled"] = <3>


class ToyBlock:
    table = {"a": <1>}
    keys = ["a"]

    @classmethod
    def register(cls, name):
        cls.table[name] = len(cls.table)

    def up(self):
        return self.table


ToyBlock.table["late"] = <2>
# --- modular_neo.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    table = {"own": 1}
    keys = []

    def up(self):
        return super().table, super().keys, super().up()
# --- probe
ToyBlock.table, ToyBlock.keys
ToyBlock().up()

# === list changed below, and read by the child
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
def change(table):
    table["late"] = <3>


def fill():
    ToyBlock.table["filled"] = <3>


class ToyBlock:
    table = {"a": <1>}
    keys = ["a"]

    @classmethod
    def register(cls, name):
        cls.table[name] = len(cls.table)

    def up(self):
        return self.table


ToyBlock.keys.append("late")
# --- modular_neo.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    table = {**toy.ToyBlock.table, "b": 2}
    keys = toy.ToyBlock.keys + ["b"]
# --- probe
ToyBlock.table, ToyBlock.keys
ToyBlock().up()

# === list changed below, and replaced by the child
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
def change(table):
    table["late"] = <3>


def fill():
    ToyBlock.table["filled"] = <3>


class ToyBlock:
    table = {"a": <1>}
    keys = ["a"]

    @classmethod
    def register(cls, name):
        cls.table[name] = len(cls.table)

    def up(self):
        return self.table


ToyBlock.keys.append("late")
# --- modular_neo.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    table = {"own": 1}
    keys = []

    def up(self):
        return super().table, super().keys, super().up()
# --- probe
ToyBlock.table, ToyBlock.keys
ToyBlock().up()

# === class method called below, and read by the child
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
def change(table):
    table["late"] = <3>


def fill():
    ToyBlock.table["filled"] = <3>


class ToyBlock:
    table = {"a": <1>}
    keys = ["a"]

    @classmethod
    def register(cls, name):
        cls.table[name] = len(cls.table)

    def up(self):
        return self.table


ToyBlock.register("late")
# --- modular_neo.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    table = {**toy.ToyBlock.table, "b": 2}
    keys = toy.ToyBlock.keys + ["b"]
# --- probe
ToyBlock.table, ToyBlock.keys
ToyBlock().up()

# === class method called below, and replaced by the child
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
def change(table):
    table["late"] = <3>


def fill():
    ToyBlock.table["filled"] = <3>


class ToyBlock:
    table = {"a": <1>}
    keys = ["a"]

    @classmethod
    def register(cls, name):
        cls.table[name] = len(cls.table)

    def up(self):
        return self.table


ToyBlock.register("late")
# --- modular_neo.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    table = {"own": 1}
    keys = []

    def up(self):
        return super().table, super().keys, super().up()
# --- probe
ToyBlock.table, ToyBlock.keys
ToyBlock().up()

# === table changed in another class body, and read by the child
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
def change(table):
    table["late"] = <3>


def fill():
    ToyBlock.table["filled"] = <3>


class ToyBlock:
    table = {"a": <1>}
    keys = ["a"]

    @classmethod
    def register(cls, name):
        cls.table[name] = len(cls.table)

    def up(self):
        return self.table


class ToyHead:
    size = ToyBlock.table.setdefault("late", 1)
# --- modular_neo.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    table = {**toy.ToyBlock.table, "b": 2}
    keys = toy.ToyBlock.keys + ["b"]
# --- probe
ToyBlock.table, ToyBlock.keys
ToyBlock().up()

# === table changed in another class body, and replaced by the child
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
def change(table):
    table["late"] = <3>


def fill():
    ToyBlock.table["filled"] = <3>


class ToyBlock:
    table = {"a": <1>}
    keys = ["a"]

    @classmethod
    def register(cls, name):
        cls.table[name] = len(cls.table)

    def up(self):
        return self.table


class ToyHead:
    size = ToyBlock.table.setdefault("late", 1)
# --- modular_neo.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    table = {"own": 1}
    keys = []

    def up(self):
        return super().table, super().keys, super().up()
# --- probe
ToyBlock.table, ToyBlock.keys
ToyBlock().up()

# === list changed below, which a new class reads
# classes: NewBlock
# overrides: ToyBlock > NewBlock
# --- modeling_toy.py
def change(table):
    table["late"] = <3>


def fill():
    ToyBlock.table["filled"] = <3>


class ToyBlock:
    table = {"a": <1>}
    keys = ["a"]

    @classmethod
    def register(cls, name):
        cls.table[name] = len(cls.table)

    def up(self):
        return self.table


ToyBlock.keys.append("late")
# --- modular_neo.py
from . import modeling_toy as toy


class NewBlock(toy.ToyBlock):
    table = {**toy.ToyBlock.table, "b": 2}
    keys = toy.ToyBlock.keys + ["b"]
# --- probe
NewBlock.table, NewBlock.keys

# === list that the parent's body holds twice, asked for by super
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    items = []
    table = {"x": items}
# --- modular_neo.py
from . import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    items = [1]

    def add(self, x):
        super().items.append(x)
        return self.table, super().items, self.items
# --- probe
ToyBlock().add(5)
