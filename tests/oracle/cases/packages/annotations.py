# `from __future__ import annotations` in some files of a package.
# The format is told in ../../packages.py.

# === future annotations in the child, read in the parent
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
def convert(x: int, *rest: str, by: float = 2.0) -> bool: ...


class ToyBlock:
    kind: int = 1

    def cast(self, v):
        return [convert.__annotations__[name](v) for name in ("x", "rest", "by", "return")]
# --- modular_neo.py
from __future__ import annotations

from . import modeling_toy as up


class ToyBlock(up.ToyBlock):
    n = <1>
# --- probe
ToyBlock().cast("5")

# === future annotations in the child, and other annotations
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyPart:
    size: int = <1>


def part(x: ToyPart) -> "ToyPart":
    return x


class ToyBlock:
    def run(self, x: int) -> float:
        return [type(v).__name__ for v in part.__annotations__.values()]
# --- modular_neo.py
from __future__ import annotations

from typing import Any

from . import modeling_toy as up


def helper(
    x: up.ToyPart, *rest: dict[
        str,
        "int"
    ], later: Later = None, **more: Any
) -> (
    up.ToyPart | None
):
    text: str = "a"

    def inner(y: int) -> text: ...

    return [*helper.__annotations__.values(), *inner.__annotations__.values()]


class ToyBlock(up.ToyBlock):
    def told(self, x: float = 1, y: "float" = 2):
        class Local:
            z: int = 3
        return [helper(None), Local.__annotations__, type(self).told.__annotations__]


class Later:
    more: list[ToyBlock]
# --- probe
ToyBlock().run(1)
[[one.replace("up.", "") for one in ToyBlock().told()[0]], *ToyBlock().told()[1:]]
Later.__annotations__

# === future annotations in the parent, read in the child
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
from __future__ import annotations


def convert(x: int) -> Later: ...


class ToyBlock:
    def names(self):
        return [convert.__annotations__, Later.__annotations__]


class Later:
    size: Later | None = <1>
# --- modular_neo.py
from . import modeling_toy as up


def other(x: int, y: str = "a") -> list: ...


class ToyBlock(up.ToyBlock):
    def kinds(self):
        return [other.__annotations__[name](5) for name in ("x", "y")]
# --- probe
ToyBlock().names()
ToyBlock().kinds()

# === future annotations in every file
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
from __future__ import annotations


def convert(x: int) -> Later: ...


class ToyBlock:
    def names(self):
        return [convert.__annotations__]
# --- modular_neo.py
from __future__ import annotations

import types as later

from . import modeling_toy as up


def other(x: later.Type) -> list: ...


class ToyBlock(up.ToyBlock):
    def kinds(self):
        return other.__annotations__
# --- probe
ToyBlock().names()
ToyBlock().kinds()

# === future annotations beside an edit
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
class ToyBlock:
    def run(self, x: int) -> int:
        return (x + 1) * 2
# --- modular_neo.py
from __future__ import annotations

from patchgen.edits import Hole, edit, new, old

from . import modeling_toy as up


class ToyBlock(up.ToyBlock):
    def told(self, x: int = 2) -> ToyBlock:
        return [type(self).told.__annotations__["x"], type(self).run.__annotations__["x"](x)]

    @edit("run")
    def multiply(self, what: Hole):
        with old:
            what * 2
        with new:
            what * (2 + <1>)
# --- oracle modeling_toy.py
class ToyBlock:
    def run(self, x: int) -> int:
        return (x + 1) * (2 + <1>)
# --- oracle modular_neo.py
from . import modeling_toy as up


class ToyBlock(up.ToyBlock):
    def told(self, x: "int" = 2) -> "ToyBlock":
        return [type(self).told.__annotations__["x"], type(self).run.__annotations__["x"](x)]
# --- probe
ToyBlock().run(3)
ToyBlock().told()

# === future annotations and a dataclass
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
import dataclasses
from typing import ClassVar


@dataclasses.dataclass
class ToyBlock:
    n: int = <1>
    shared: ClassVar[int] = 4
# --- modular_neo.py
from __future__ import annotations

import dataclasses
from typing import ClassVar

from . import modeling_toy as up


@dataclasses.dataclass
class ToyBlock(up.ToyBlock):
    more: int = <2>
    own: ClassVar[dict[str, Later]] = {}


class Later:
    pass
# --- probe
ToyBlock(1, 2)
[(f.name, f.type) for f in dataclasses.fields(ToyBlock)]

# === strings in annotations that are no types
# classes: ToyBlock
# overrides: ToyBlock
# --- modeling_toy.py
def sized(text):
    note("sized", text)
    return int


class Float:
    def __class_getitem__(cls, sizes):
        return cls


class ToyBlock:
    def run(self, x: Float["batch"], y: sized("rows") = <1>) -> "Nowhere":
        return [x, y]
# --- modular_neo.py
from . import modeling_toy as up


class ToyBlock(up.ToyBlock):
    def run(self, x: up.Float["heads"], y: up.sized("columns") = <2>) -> "Unknown":
        z: "Later" = super().run(x, y)
        return z
# --- probe
ToyBlock().run(1)
