"""The last check of a text that is written: what it says of a few lines, and of what it says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen.compiler.emit.validate import validate
from patchgen.compiler.flat import FlatFile, LineOrigin, Override
from patchgen.syntax.errors import Location
from patchgen.syntax.locate import make_environment

RELEASE = {
    "__init__.py": "_import_structure = {'lazy': ['Lazy']}\nsys.modules[__name__] = _LazyModule(_import_structure)",
    "base.py": """
import torch
from torch import nn
from .mixin import Mixin as Other

class Base(nn.Module, Other):
    def start(self):
        self.late = print

class Any(Base):
    def __getattr__(self, name): ...
""",
    "mixin.py": "class Mixin:\n    def mix(self): ...",
    "open.py": "globals()['x'] = 1",
    "star.py": "from .mixin import *",
    "guarded.py": "try:\n    import torch\nexcept ImportError:\n    torch = None",
    "lazy.py": "",
    "configuration_a.py": "class AConfig:\n    hidden_size: int = 1",
}
HEAD = "from torch import nn\nfrom transformers.base import Any, Base\n\n\n"
# A text below HEAD, and the findings: line of the text, code, and words of the message.
CASES = [
    # Names that are read at import.
    ("class A(B): ...\nclass B: ...", ["1 PG410 B is read"]),
    ("@f\ndef g(): ...\ndef f(g): ...", ["1 PG410 f is read"]),
    ("def g(x=SIZE): ...\nSIZE = 1", ["1 PG410 SIZE is read"]),
    ("def g(x: A): ...\nclass A: ...", ["1 PG410 A is read"]),
    ("class A:\n    table = {'x': B}\nclass B: ...", ["2 PG410 B is read"]),
    ("x = [y for _ in range(2)]\ny = 1", ["1 PG410 y is read"]),
    (
        "if TYPE_CHECKING:\n    from torch import T\ndef g(x: T): ...\nTYPE_CHECKING = 0",
        ["3 PG410 T"],
    ),
    ("def g(x: 'A'): return A\nclass A:\n    def f(self): return g(B)\nB = g", []),
    ("if 1:\n    x = 1\n    y = x\nclass A:\n    a = 1\n    b = a", []),
    ("f = lambda: late\nlate = max\nmax = late", []),
    # Imports.
    ("from transformers.base import Bse", ["1 PG411 transformers.base has no Bse"]),
    ("from transformers.bas import Base", ["1 PG411 there is no module transformers.bas"]),
    ("import transformers.bas", ["1 PG411 there is no module transformers.bas"]),
    ("from transformers import Lzy", ["1 PG411 transformers has no Lzy"]),
    ("def f():\n    from transformers.star import Mixn", ["2 PG411 transformers.star has no Mixn"]),
    ("from transformers import Lazy, base, lazy\nfrom transformers.base import torch, Other", []),
    ("from transformers.star import Mixin\nfrom transformers.open import x", []),
    ("from transformers.guarded import torch\nfrom nowhere.at import all", []),
    ("try:\n    from transformers.gone import x\nexcept ImportError:\n    x = None", []),
    ("if nn:\n    from transformers.gone import x", []),
    # Methods.
    ("class A:\n    def f(self): self.g()", ["2 PG412 self.g(...) finds no method: A has no g"]),
    ("class A(Base):\n    def f(self): self.miks()", ["2 PG412 self.miks(...)"]),
    (
        "class A(nn.Module): ...\nclass B(nn.Module):\n    def __init__(self):\n        self.a = A()\n"
        "    def forward(self): self.a.run()",
        ["5 PG412 self.a.run(...) finds no method: A has no run"],
    ),
    (
        "class A(nn.Module): ...\nclass B(nn.Module):\n    def __init__(self):\n"
        "        self.a = nn.ModuleList([A() for _ in range(3)])\n"
        "    def forward(self):\n        for i, a in enumerate(self.a[1:]): a.run()",
        ["6 PG412 a.run(...) finds no method: A has no run"],
    ),
    ("class A(Base):\n    def f(self): self.mix(), self.start(), self.late(), self.eval()", []),
    ("class A(Any):\n    def f(self): self.g()", []),
    ("class A(nn.Linear):\n    def f(self): self.g()", []),
    ("class A(print()):\n    def f(self): self.g()", []),
    ("class A:\n    def f(self): self.__class__()\n    def __getattr__(self, name): ...", []),
    ("class A:\n    def f(self): self.g()\nclass B(A):\n    def g(self): ...", []),
    ("class M:\n    def f(self): self.g()\nclass A(M, nn.Linear): ...", []),
    ("class A:\n    def f(self):\n        if hasattr(self, 'g'): self.g()", []),
    ("class A:\n    def f(self, name): setattr(self, name, 1); self.g()", []),
    ("class A:\n    def f(self): self.g()\nA.g = print", []),
    ("class A: ...\nA = nn.Linear\nclass B:\n    def f(self): self.a = A(); self.a.g()", []),
    # Arguments.
    (
        "class A(nn.Module):\n    def forward(self, x): ...\nclass B(nn.Module):\n"
        "    def __init__(self):\n        self.a = A() if print else None\n"
        "    def forward(self): self.a(1, 2)",
        ["6 PG406 the call self.a(1, 2) does not fit: A.forward takes 1 positional"],
    ),
    (
        "class A(nn.Module):\n    def forward(self, x): ...\nclass B(nn.Module):\n"
        "    def __init__(self):\n        self.a = nn.ModuleList([A()])\n"
        "    def forward(self):\n        for i, a in zip(self.b, self.a): a(y=1)",
        ["7 PG406 the call a(y=1) does not fit: A.forward has no parameter y"],
    ),
    (
        "class A(nn.Module):\n    def forward(self, x): ...\nclass B(nn.Module):\n"
        "    def __init__(self, c):\n        self.a = A()\n        if c: self.a = c\n"
        "    def forward(self): self.a(1, 2)",
        [],
    ),
    (
        "class A(Base):\n    def f(self):\n        self.mix(\n            'é',  # 1\n        )",
        ["3 PG406 the call self.mix('é') does not fit: Base.mix of this release takes 0 pos"],
    ),
    # Names but for a letter.
    (
        "class A:\n    _tp_plan = {'haed': 'rowwise', 'layers.*.head': 'colwise'}\n"
        "    def f(self): self.head = self.layers = nn.Linear(1, 1)",
        ["2 PG426 haed names no module"],
    ),
    (
        "class A:\n    _tied_weights_keys = {'lm_head.weight': 'emb.weight'}\n"
        "    def f(self): self.lm_head = self.emb = nn.Linear(1, 1)",
        [],
    ),
    (
        "from transformers.configuration_a import AConfig\nclass A:\n"
        "    def f(self, config): return config.hiden_size, config.hidden_size, config.width",
        ["3 PG426 config.hiden_size is no field"],
    ),
    # Values.
    (
        "class A:\n    def f(self, x): return x, x, x\n    def g(self):\n        y, z = self.f(1)",
        ["4 PG425 A.f returns 3 values, and its caller unpacks 2"],
    ),
    (
        "class A:\n    def f(self, x):\n        if x: return x, x\n        return x\n"
        "    def g(self):\n        x, y, z = self.f(1)\n        (*a, b), c = self.f(2)",
        [],
    ),
    ("def f(x): return x, x\ndef g():\n    x, y, z = f(1)", ["3 PG425 f returns 2 values"]),
    (
        "def f(x): return x, x\ndef g():\n    h = nn.get_interface('a', f)\n    x, y, z = h(1)",
        ["4 PG425 f returns 2 values"],
    ),
    ("def f(x):\n    def g(): return x, x\n    return g\ndef h():\n    x, y, z = f(1)", []),
]


AT = Location("modular.py")


def output(text: str, lines: tuple[LineOrigin, ...] = (), base: str | None = None) -> FlatFile:
    diff_base = None if base is None else ("base.py", base)
    return FlatFile("modeling", "out.py", text, map_lines=lambda: lines, diff_base=diff_base)


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[case[0][:60] for case in CASES])
def test_case(text: str, expected: list[str], tmp_path: Path) -> None:
    package = tmp_path / "transformers"
    package.mkdir()
    for name, content in RELEASE.items():
        (package / name).write_text(content)
    head = HEAD.count("\n")
    lines = (LineOrigin(head + 1, head + text.count("\n") + 1, "modular.py", 1),)
    env = make_environment(tmp_path, search=[])
    problems = validate(output(f"{HEAD}{text}\n", lines), (), env, {"": AT})
    said = [f"{problem.at.line} {problem.code} {problem.what}" for problem in problems]
    assert len(said) == len(expected), said
    for message, words in zip(said, expected, strict=True):
        assert message.startswith(words)


def test_what_the_base_asks_the_release_too(tmp_path: Path) -> None:
    package = tmp_path / "transformers"
    package.mkdir()
    for name, content in RELEASE.items():
        (package / name).write_text(content)
    base = f"{HEAD}class A(Base):\n    def f(self): self.mix(1), self.miks()\n"
    text = f"{HEAD}class A(Base):\n\n    def f(self): self.mix(1), self.miks(), self.mix(2, 3)\n"
    env = make_environment(tmp_path, search=[])
    (problem,) = validate(output(text, base=base), (), env, {"": AT})
    assert problem.what.startswith("the call self.mix(2, 3) does not fit")


CALLER = """
class B(nn.Module):
    def __init__(self):
        self.a = A()

    def forward(self, x):
        return self.a(x, cache=1)
"""
# The parent's method, the override's parameters and body, and how the problem is reported.
SWALLOWED = [
    ("def forward(self, x, cache=None): return cache", "x, old=None, **kw", "x", "error"),
    ("def forward(self, x, cache=None): return cache", "x, **kw", "x", "warning"),
    ("def forward(self, x, cache=None): return cache", "x, **kw", "attend(x, **kw)", "warning"),
    ("def forward(self, x, cache=None): return x", "x, old=None, **kw", "x", ""),
    ("def forward(self, x, cache=None): return cache", "x, old=None, **kw", "kw.get('cache')", ""),
    ("def forward(self, x, cache=None): return cache", "x, **kw", "self.inner(x, **kw)", ""),
    ("def forward(self, x, cache=None): return cache", "x, cache=None, **kw", "x", ""),
]


@pytest.mark.parametrize(("parent", "parameters", "body", "severity"), SWALLOWED)
def test_argument_that_an_override_swallows(
    parent: str, parameters: str, body: str, severity: str, tmp_path: Path
) -> None:
    method = (
        f"    def forward(self, {parameters}):\n        attend = print\n        return {body}\n"
    )
    text = f"from torch import nn\n\n\nclass A(nn.Module):\n{method}\n{CALLER}"
    caller = LineOrigin(
        text.count("\n", 0, text.index("class B")) + 1, text.count("\n"), "toy.py", 1
    )
    override = Override(Location("modular.py", 7, 5), "A.forward", "toy.A.forward", parent)
    env = make_environment(tmp_path, search=[])
    problems = validate(output(text, (caller,)), (override,), env, {"": AT})
    assert [problem.severity for problem in problems if problem.code == "PG413"] == (
        [severity] if severity else []
    )
    assert all(problem.at == override.at for problem in problems if problem.code == "PG413")
    # Where the caller is in the modular file too, both were written so.
    problems = validate(output(text), (override,), env, {"": AT})
    assert "error" not in [p.severity for p in problems if p.code == "PG413"]


@pytest.mark.parametrize(("base", "severity"), [("", "error"), ("Gone", "warning")])
def test_a_mistake_in_a_copy_of_upstreams_list_of_layers(
    base: str, severity: str, tmp_path: Path
) -> None:
    text = 'class A:\n    _no_split_modules = ["Gone"]\n'
    env = make_environment(tmp_path, search=[])
    before = text.replace("Gone", base) + "    b = 1\n"
    (problem,) = validate(output(text, base=before), (), env, {"": AT})
    assert (problem.code, problem.severity) == ("PG409", severity)
