"""Modular packages made from a seed: a parent module, a thin modular file over it, and a probe.

`cases(dimension, count)` gives the packages of one dimension of the grammar, the same ones every
time.  A feature (one class, see `features` and `traps`) is set into one of five shapes of parent
and written in one of four forms of modular file; what concerns whole modules is in `packages`.

    python -m tests.oracle.generator "super in return" 17     # print one
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator

from tests.oracle import packages, traps
from tests.oracle.case import Case, Draw, Feature, block, indented
from tests.oracle.features import INIT, RANDOM, Maker

SHAPES = ("single", "chain", "kept", "composite", "mixin")
FEATURES: dict[str, Maker] = {**RANDOM, **traps.TRAPS}
DIMENSIONS: tuple[str, ...] = (*FEATURES, *packages.BUILDERS)

KEPT = (
    "from oracle_kept import Logged, Loud, Meta, Module, Ready, logged, note, plus, registered,"
    " run, tracked"
)
PARENT_HEAD = f'''"""The parent of a generated package."""

{KEPT}

FACTOR = 3


def shift(x):
    return note("shift", x + FACTOR)


def scale(x):
    return x * 2
'''
OWNERS = {"chain": "ToyBase", "mixin": "ToyBase"}
"""The class that has a feature's members, where it is not the one that is overridden."""

HOOK = """
def hook(self, x):
    return x + self.n
"""
MODEL = """
class ToyModel:
    parts = ("ToyBlock",)

    def __init__(self, n=2):
        self.blocks = [ToyBlock(n), ToyBlock(n + 1)]

    def total(self):
        return [type(block).__name__ for block in self.blocks], [block.hook(1) for block in self.blocks]


class ToySub(ToyBlock):
    def hook(self, x):
        return super().hook(x) + 1000
"""


def cases(dimension: str, count: int) -> Iterator[Case]:
    """The first `count` packages of `dimension`."""
    return (make(dimension, seed) for seed in range(count))


def make(dimension: str, seed: int) -> Case:
    """The package of `dimension` with number `seed`."""
    # A `Random` made from a string depends on the text, as this does, but also on its version.
    digest = hashlib.sha256(f"{dimension} {seed}".encode()).digest()
    draw = Draw(int.from_bytes(digest[:8], "big"))
    if dimension in packages.BUILDERS:
        return packages.BUILDERS[dimension](draw, seed, dimension)
    return assemble(draw, seed, dimension, FEATURES[dimension](draw))


def assemble(draw: Draw, seed: int, dimension: str, feature: Feature) -> Case:
    """A package around `feature`, in a shape and a form that suit it."""
    shape = draw.choice(feature.shapes or SHAPES)
    form = draw.choice(("module", "alias", "new", "new from module"))
    if feature.same_name is not None:
        form = draw.choice(("module", "alias") if feature.same_name else ("new", "new from module"))
    new = form.startswith("new")
    child = "NeoBlock" if new else "ToyBlock"
    parent = {"module": "upstream.ToyBlock", "alias": "Upstream", "new": "ToyBlock"}.get(
        form, "upstream.ToyBlock"
    )
    model = shape == "composite" and new
    owner = OWNERS.get(shape, "ToyBlock")
    files = {
        "toypack/__init__.py": "",
        "toypack/modeling_toy.py": _parent_module(feature, shape, feature.parent),
        "toypack/modular_neo.py": _modular(draw, feature, form, child, parent, model).replace(
            "OWNER", owner
        ),
    }
    oracle = {}
    if feature.oracle_parent is not None:
        oracle["toypack/modeling_toy.py"] = _parent_module(feature, shape, feature.oracle_parent)
        files_of_oracle = Feature(child_top=feature.child_top, calls=feature.calls)
        oracle["toypack/modular_neo.py"] = _modular(
            draw, files_of_oracle, form, child, parent, model
        )
    overrides = [("toypack.modeling_toy", "ToyBlock", child)]
    if model:
        overrides.append(("toypack.modeling_toy", "ToyModel", "NeoModel"))
    return Case(
        seed=seed,
        dimension=dimension,
        files=files,
        modular="toypack/modular_neo.py",
        probe=_steps(feature, shape, new, child),
        classes=_classes(shape, new, child),
        oracle_files=oracle,
        overrides=tuple(overrides),
        removed=tuple((child, member) for member in feature.removed),
        renames=(("Toy", "Neo"),) if new else (),
    )


def _steps(feature: Feature, shape: str, new: bool, child: str) -> tuple[str, ...]:
    calls = [call.replace("CHILD", child) for call in feature.calls]
    makers = list(feature.construct) or ["CHILD(3)"]
    steps = [
        step for maker in makers for step in (f"obj = {maker.replace('CHILD', child)}", *calls)
    ]
    if shape == "composite":
        steps += [f"obj = {'Neo' if new else 'Toy'}Model(2)", "obj.total()"]
        steps += [] if new else ["obj = ToySub(4)", *calls]
    if shape == "chain" and not new:
        steps += ["obj = ToyBase(3)", *calls]
    return tuple(steps)


def _classes(shape: str, new: bool, child: str) -> tuple[str, ...]:
    more = {
        "composite": ("NeoModel",) if new else ("ToyModel", "ToySub"),
        "chain": () if new else ("ToyBase", "ToyMid"),
    }
    return (child, *more.get(shape, ()))


def _parent_module(feature: Feature, shape: str, members: str) -> str:
    body = _with_init(members, shape)
    keywords = feature.keywords
    owner = OWNERS.get(shape, "ToyBlock")
    body = body.replace("OWNER", owner)
    bases = "Module" if shape == "kept" else ""
    head = ", ".join(part for part in (bases, keywords) if part)
    decorators = f"{feature.decorators}\n" if feature.decorators else ""
    classes = [f"{decorators}class {owner}{f'({head})' if head else ''}:\n{indented(body)}"]
    if shape == "chain":
        middle = feature.middle or "middle = True"
        classes += [
            f"class ToyMid(ToyBase):\n{indented(middle)}",
            "class ToyBlock(ToyMid):\n    own = 1",
        ]
    if shape == "mixin":
        mixin = block("""
            class ToyMixin:
                def hook(self, x):
                    return super().hook(x) * 2 + FACTOR
        """)
        classes += [mixin, "class ToyBlock(ToyMixin, ToyBase):\n    own = 1"]
    if shape == "composite":
        classes.append(block(MODEL))
    parts = [PARENT_HEAD, feature.top, *classes, feature.late.replace("OWNER", owner)]
    return "\n\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _with_init(members: str, shape: str) -> str:
    parts = []
    if "def __init__(" not in members and "items: list" not in members:
        init = block(INIT)
        if shape == "kept":
            init = init.replace("    self.n", "    super().__init__()\n    self.n", 1)
        parts.append(init)
    if "__slots__" in members or "items: list" in members or members.startswith('"""'):
        parts.insert(0, members)
    else:
        parts.append(members)
    return "\n\n".join([*parts, block(HOOK)])


def _modular(draw: Draw, feature: Feature, form: str, child: str, parent: str, model: bool) -> str:
    imports = {
        "module": "from . import modeling_toy as upstream\nfrom .modeling_toy import FACTOR, shift",
        "alias": "from toypack.modeling_toy import FACTOR, ToyBlock as Upstream, shift",
        "new": f"from .modeling_toy import FACTOR, ToyBlock, {'ToyModel, ' if model else ''}shift",
        "new from module": (
            "import toypack.modeling_toy as upstream\nfrom .modeling_toy import FACTOR, shift"
        ),
    }[form]
    decorators = f"{feature.child_decorators}\n" if feature.child_decorators else ""
    keywords = f", {feature.child_keywords}" if feature.child_keywords else ""
    body = feature.child or "pass"
    classes = [f"{decorators}class {child}({parent}{keywords}):\n{indented(body)}"]
    if model:
        classes.append(f"class NeoModel({parent.replace('ToyBlock', 'ToyModel')}):\n    pass")
    text = "\n\n\n".join([feature.child_top, *classes, feature.child_late]).strip("\n")
    text = text.replace("PARENT", parent).replace("CHILD", child)
    return f'"""A generated modular file."""\n\n{KEPT}\n\n{imports}\n\n\n{text}\n'


def main(dimension: str, seed: str = "0") -> None:
    """Print one package."""
    print(make(dimension, int(seed)).listing())


if __name__ == "__main__":
    main(*sys.argv[1:])
