"""PG740: what the parent's `__init__` builds and the child's replaces, and what only looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.lint import with_findings
from patchgen.syntax.locate import make_environment
from patchgen.syntax.text import read_source

HEAD = """from torch import nn


class ToyMLP(nn.Module):
    pass


class ToyHead(nn.Module):
    pass


"""

BUILT = """
        super().__init__()
        self.mlp = ToyMLP(config)
        self.norm = nn.LayerNorm(config.size)
"""

FOUND = {
    "two of them": (
        BUILT,
        "super().__init__(config)\nself.norm = nn.Identity()\nself.mlp: nn.Module = toy.ToyHead(config)",
        ["norm", "mlp"],
    ),
    "behind post_init": (
        BUILT + "        self.post_init()\n",
        "super().__init__(config)\nself.mlp = toy.ToyHead(config)\nself.post_init()",
        ["mlp"],
    ),
    "behind what is kept of the parent": (
        BUILT + "        x = 1\n",
        "x = config\nsuper().__init__(x)\nself.mlp = toy.ToyHead(x)",
        ["mlp"],
    ),
    "no instance": (BUILT, "super().__init__(config)\nself.mlp = make(config)", []),
    "a condition in the parent": (
        BUILT.replace("self.mlp =", "if config.mlp: self.mlp ="),
        "super().__init__(config)\nself.mlp = toy.ToyHead(config)",
        [],
    ),
    "the parent reads it": (
        BUILT + "        self.size = self.mlp.size\n",
        "super().__init__(config)\nself.mlp = toy.ToyHead(config)",
        [],
    ),
    "the object is handed on": (
        BUILT + "        register(self)\n",
        "super().__init__(config)\nself.mlp = toy.ToyHead(config)",
        [],
    ),
    "the parent may stop before": (
        BUILT.replace(
            "        self.norm", "        if config.short:\n            return\n        self.norm"
        ),
        "super().__init__(config)\nself.norm = nn.Identity()",
        [],
    ),
    "an edit": (
        BUILT,
        "super().__init__(config)\n\n@edit('__init__')\ndef put(self, config):\n"
        "    with old:\n        self.mlp = toy.ToyMLP(config)\n    with new:\n        self.mlp = toy.ToyHead(config)",
        [],
    ),
}


@pytest.mark.parametrize(("parent", "child", "names"), FOUND.values(), ids=FOUND)
def test_what_is_built_twice(parent: str, child: str, names: list[str], tmp_path: Path) -> None:
    init, _, rest = child.partition("\n\n")
    members = [
        "def __init__(self, config):",
        *(f"    {line}" for line in init.split("\n")),
        "",
        *rest.split("\n"),
    ]
    text = "\n".join(f"    {line}" if line else "" for line in members)
    text = (
        text if not child.startswith("super().__init__(config)\n\n") else text.split("\n\n", 1)[1]
    )
    package = tmp_path / "toypack"
    package.mkdir()
    (package / "__init__.py").touch()
    model = f"class ToyModel(nn.Module):\n    def __init__(self, config):{parent}\n    def setup(self): ...\n"
    helpers = "def register(x): ...\n\n\ndef make(x): ...\n\n\nACT2FN = {}\n\n\n"
    (package / "modeling_toy.py").write_text(HEAD + helpers + model)
    imports = "from patchgen.edits import edit, new, old\nfrom torch import nn\n\nfrom . import modeling_toy as toy\n"
    body = f"{imports}from .modeling_toy import make\n\n\nclass ToyModel(toy.ToyModel):\n{text}\n"
    path = package / "modular_toy_fast.py"
    path.write_text(body)
    env = make_environment(tmp_path, search=[])
    source = read_source(path, "", env.display_path(path))
    found = with_findings(flatten(path, env, Settings()), source)
    assert [problem.code for problem in found.problems] == ["PG740"] * len(names), found.problems
    lines = body.split("\n")
    for problem, name in zip(found.problems, names, strict=True):
        assert problem.severity == "warning" and problem.what == f"`self.{name}` is built twice"
        assert f"self.{name}" in lines[problem.at.line - 1]
