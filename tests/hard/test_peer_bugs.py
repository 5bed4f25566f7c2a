"""Defects seen in public tools that flatten or patch models.  None of them may be found here."""

from __future__ import annotations

import ast
import types
from pathlib import Path

import pytest

from patchgen.compiler.flat import FlatFile
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import Problem
from patchgen.syntax.locate import make_environment
from tests.hard.support import flat
from tests.oracle.sections import parse

HEAD = "from . import modeling_toy as toy\n\n\n"


def _flatten(
    folder: Path, parent: str, modular: str, **more: str
) -> FlatFile | tuple[Problem, ...]:
    files = {
        "toypack/__init__.py": "",
        "toypack/modeling_toy.py": parent,
        "toypack/modular_toy_fast.py": modular,
    }
    files |= {f"toypack/{name}.py": text for name, text in more.items()}
    result = flat(folder, files, "toypack/modular_toy_fast.py")
    return result.problems or result.files[0]


def _text(folder: Path, parent: str, modular: str) -> str:
    found = _flatten(folder, parent, modular)
    assert isinstance(found, FlatFile), found
    return found.text


def _run(text: str) -> types.SimpleNamespace:
    names: dict[str, object] = {}
    exec(compile(text, "flat", "exec"), names)
    return types.SimpleNamespace(**names)


ACT = """class ToyMLP:
    def __init__(self, c):
        self.size = c
        self.act_fn = abs
        self.table = [self.act_fn]
"""


def test_an_assignment_that_reads_the_parents_value(tmp_path: Path) -> None:
    child = "class ToyMLP(toy.ToyMLP):\n    def __init__(self, c):\n        super().__init__(c)\n"
    text = _text(tmp_path, ACT, f"{HEAD}{child}        self.act_fn = (self.act_fn, self.size)\n")
    made = _run(text).ToyMLP(3)
    assert made.act_fn == (abs, 3) and made.table == [abs]
    assert list(vars(made)) == ["size", "act_fn", "table"]


VALUE = "class ToyMLP:\n    def forward(self, x):\n        if x < 0:\n            return 0\n        return x + 1\n"
USES = {
    "assigned": "out = super().forward(x)\n        return out * 2",
    "operand": "return super().forward(x) * 2",
    "argument": "return max(super().forward(x), super().forward(-x)) * 2",
    "condition": "return 2 * (x + 1) if super().forward(x) else 0",
}


@pytest.mark.parametrize("body", USES.values(), ids=USES)
def test_super_used_as_a_value(tmp_path: Path, body: str) -> None:
    text = _text(
        tmp_path,
        VALUE,
        f"{HEAD}class ToyMLP(toy.ToyMLP):\n    def forward(self, x):\n        {body}\n",
    )
    assert "super()" not in text
    made = _run(text).ToyMLP()
    assert [made.forward(3), made.forward(-3)] == ([8, 0] if "max" not in body else [8, 8])


def test_mixins_are_merged(tmp_path: Path) -> None:
    modular = (
        f"{HEAD}class A:\n    def forward(self, x):\n        return super().forward(x) + 1\n\n\n"
    )
    modular += "class B:\n    def forward(self, x):\n        return super().forward(x) * 10\n\n\n"
    modular += "class ToyMLP(A, B, toy.ToyMLP):\n    pass\n"
    made = _run(_text(tmp_path, VALUE, modular)).ToyMLP
    assert made().forward(1) == 21 and made.__bases__ == (object,)


TOP = """import warnings

LIMIT: int = 3
try:
    import not_there
except ImportError:
    not_there = None
TABLE = {}
TABLE.update(a=LIMIT)
warnings.filterwarnings("ignore", module="toy")


class ToyMLP:
    limit = LIMIT
"""


def test_top_level_statements_are_kept(tmp_path: Path) -> None:
    text = _text(tmp_path, TOP, f"{HEAD}class ToyMLP(toy.ToyMLP):\n    size = 2\n")
    kept = [ast.dump(node) for node in ast.parse(text).body if not isinstance(node, ast.ClassDef)]
    assert kept == [
        ast.dump(node) for node in ast.parse(TOP).body if not isinstance(node, ast.ClassDef)
    ]


def test_guards_stay_guards(tmp_path: Path) -> None:
    guard = "try:\n    from fast import kernel\nexcept ImportError:\n    kernel = None\n"
    local = "    def forward(self, x):\n        from math import floor\n\n        return floor(x) if kernel else x\n"
    modular = f"{guard}\n{HEAD}class ToyMLP(toy.ToyMLP):\n    def backward(self):\n        import json\n\n"
    text = _text(
        tmp_path, f"{guard}\n\nclass ToyMLP:\n{local}", f"{modular}        return json, kernel\n"
    )
    assert guard in text and local in text and "        import json\n" in text
    top = [node for node in ast.parse(text).body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not top


NAMES = """class Qwen3VLModel:
    pass


class Qwen3VLMoeModel:
    parts: "tuple[Qwen3VLModel, Qwen3VLMoeModel]" = (Qwen3VLModel, "Qwen3VLModel")


class DiffLlamaMLP:
    pass


class LlamaMLP:
    kinds: "list[LlamaMLP]" = ["LlamaMLP", "DiffLlamaMLP", "LlamaMLPs"]
"""


def test_a_prefix_of_a_name_is_not_renamed(tmp_path: Path) -> None:
    modular = "from .modeling_toy import Qwen3VLModel, Qwen3VLMoeModel\n\n\n"
    modular += "class FastVLModel(Qwen3VLModel):\n    size = 2\n\n\nclass FastVLMoeModel(Qwen3VLMoeModel):\n    size = 2\n"
    text = _text(tmp_path, NAMES, modular)
    # A string that is data stays what it is.
    assert 'parts: "tuple[FastVLModel, FastVLMoeModel]" = (FastVLModel, "Qwen3VLModel")' in text
    assert "MoeMoe" not in text and text.split("\n\n\n", 1)[1].count("Qwen") == 1


def test_a_name_inside_a_longer_one_is_not_touched(tmp_path: Path) -> None:
    modular = "from .modeling_toy import LlamaMLP\n\n\nclass NewMLP(LlamaMLP):\n    size = 2\n"
    text = _text(tmp_path, NAMES, modular)
    assert 'kinds: "list[NewMLP]" = ["LlamaMLP", "DiffLlamaMLP", "LlamaMLPs"]' in text


def test_a_hash_in_a_string_is_no_comment(tmp_path: Path) -> None:
    parent = 'class ToyMLP:\n    color = "#fff"  # white\n\n    def forward(self, x):\n        return f"#{x}"  # named\n'
    text = _text(
        tmp_path, parent, f"{HEAD}class ToyMLP(toy.ToyMLP):\n    other = '#000'  # black\n"
    )
    for line in ['color = "#fff"  # white', 'return f"#{x}"  # named', 'other = "#000"  # black']:
        assert line in text


DECORATED = """import functools
from dataclasses import dataclass

import torch


class ToyMLP:
    @torch.no_grad()
    @functools.cache
    def forward(self, x):
        return x

    @property
    def size(self):
        return 1

    @staticmethod
    def helper(x):
        return x


@dataclass
class ToyModel:
    pass
"""


def test_decorators_stand_once(tmp_path: Path) -> None:
    modular = f"import torch\n\n{HEAD}class ToyMLP(toy.ToyMLP):\n    @torch.no_grad()\n    def backward(self, x):\n"
    text = _text(tmp_path, DECORATED, f"{modular}        return x\n")
    counts = {
        name: text.count(name)
        for name in ("@torch.no_grad()", "@functools.cache", "@property", "@dataclass")
    }
    assert counts == {"@torch.no_grad()": 2, "@functools.cache": 1, "@property": 1, "@dataclass": 1}


def test_an_override_has_its_own_decorators_only(tmp_path: Path) -> None:
    modular = f"{HEAD}class ToyMLP(toy.ToyMLP):\n    def forward(self, x):\n        return x * 2\n"
    text = _text(tmp_path, DECORATED, modular)
    assert "no_grad" not in text and "functools" not in text and text.count("@") == 3


def test_a_decorator_that_swaps_forward_is_dropped_with_a_note(tmp_path: Path) -> None:
    text = (
        "from transformers.models.llama import modeling_llama as llama\n\n\n"
        "class LlamaRMSNorm(llama.LlamaRMSNorm):\n    def forward(self, x):\n        return x\n"
    )
    path = tmp_path / "modular_llama_x.py"
    path.write_text(text)
    result = flatten(path, make_environment(tmp_path), Settings())
    (file,) = result.files
    (norm,) = [
        n
        for n in ast.parse(file.text).body
        if isinstance(n, ast.ClassDef) and n.name == "LlamaRMSNorm"
    ]
    assert not norm.decorator_list
    assert any("use_kernel_forward_from_hub" in note.what for note in file.notes), file.notes


def test_a_kernel_of_a_replaced_function_is_dropped_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "modular_llama_x.py"
    path.write_text(
        "from transformers.models.llama import modeling_llama as llama\n\n\n"
        "def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):\n    return q, k\n\n\n"
        "class LlamaMLP(llama.LlamaMLP):\n    def forward(self, x):\n        return 2 * x\n"
    )
    (file,) = flatten(path, make_environment(tmp_path), Settings()).files
    assert "use_kernelized_func" not in file.text
    assert any("use_kernelized_func" in note.what for note in file.notes), file.notes


def test_a_kernel_that_the_modular_file_says_itself_stays(tmp_path: Path) -> None:
    path = tmp_path / "modular_llama_x.py"
    path.write_text(
        "from transformers.integrations import use_kernelized_func\n"
        "from transformers.models.llama import modeling_llama as llama\n\n\n"
        "def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):\n    return q, k\n\n\n"
        "@use_kernelized_func(apply_rotary_pos_emb)\n"
        "class LlamaAttention(llama.LlamaAttention):\n    pass\n"
    )
    (file,) = flatten(path, make_environment(tmp_path), Settings()).files
    assert "@use_kernelized_func(apply_rotary_pos_emb)\nclass LlamaAttention" in file.text


def test_it_stays_where_forward_is_inherited(tmp_path: Path) -> None:
    text = (
        "from transformers.models.llama import modeling_llama as llama\n\n\n"
        "class LlamaRMSNorm(llama.LlamaRMSNorm):\n    def extra_repr(self):\n        return ''\n"
    )
    path = tmp_path / "modular_llama_x.py"
    path.write_text(text)
    (file,) = flatten(path, make_environment(tmp_path), Settings()).files
    assert '@use_kernel_forward_from_hub("RMSNorm")\nclass LlamaRMSNorm' in file.text


LICENCE = "# Copyright 2024 The Toy Authors.\n#\n# Licensed under the Apache License, Version 2.0\n"


def test_the_licence_stays_with_a_notice_of_modification(tmp_path: Path) -> None:
    text = _text(
        tmp_path, f"{LICENCE}\n\n{VALUE}", f"{HEAD}class ToyMLP(toy.ToyMLP):\n    size = 2\n"
    )
    assert LICENCE in text
    assert "Modified from toypack.modeling_toy" in text.split(LICENCE)[0]


def test_the_licence_comes_along_into_a_new_model(tmp_path: Path) -> None:
    modular = "# Copyright 2026 Me.\n\nfrom .modeling_toy import ToyMLP\n\n\nclass NewMLP(ToyMLP):\n    size = 2\n"
    text = _text(tmp_path, f"{LICENCE}\n\n{VALUE}", modular)
    assert LICENCE in text and "# Copyright 2026 Me." in text and "Modified from" in text


CALLS = """def helper(x, y):
    return x + y


class ToyMLP:
    def __init__(self, size, bias=False):
        self.size = size

    def forward(self, x, mask=None):
        return helper(x, 1)


class ToyModel:
    def __init__(self):
        self.mlp = ToyMLP(3, bias=True)

    def forward(self, x):
        return ToyMLP(3).forward(x, mask=None)
"""
MISFITS = {
    "a function loses a parameter": ("def helper(x):\n    return x\n", "helper(x, 1)"),
    "a class loses a parameter": (
        "class ToyMLP(toy.ToyMLP):\n    def __init__(self, size):\n        self.size = size\n",
        "ToyMLP(3, bias=True)",
    ),
    "a function wants one more": ("def helper(x, y, z):\n    return x\n", "helper(x, 1)"),
}


@pytest.mark.parametrize(("change", "call"), MISFITS.values(), ids=MISFITS)
def test_a_call_that_does_not_fit_any_more(tmp_path: Path, change: str, call: str) -> None:
    also = "\n\nclass ToyModel(toy.ToyModel):\n    size = 2\n"
    problems = _flatten(tmp_path, CALLS, f"{HEAD}{change}{also}")
    assert isinstance(problems, tuple), problems.text
    line = next(number for number, text in enumerate(CALLS.split("\n"), 1) if call in text)
    assert (problems[0].code, problems[0].at.path, problems[0].at.line) == (
        "PG406",
        "toypack/modeling_toy.py",
        line,
    )
    assert call in problems[0].what and problems[0].hint


TWICE = parse(
    "definitions of one name",
    """# --- two overrides of a method
class ToyMLP(toy.ToyMLP):
    def forward(self, x):
        return 1

    def forward(self, x):
        return 2
# --- an override and a removal
class ToyMLP(toy.ToyMLP):
    def forward(self, x):
        return 1

    forward = AttributeError()
# --- two declarations of a class
class ToyMLP(toy.ToyMLP):
    def forward(self, x):
        return 1


class ToyMLP(toy.ToyMLP):
    def forward(self, x):
        return 2
# --- two functions
def helper(x, y):
    return 1


class ToyMLP(toy.ToyMLP):
    size = 1


def helper(x, y):
    return 2
""",
).texts
LINES = {
    "two overrides of a method": 8,
    "an override and a removal": 8,
    "two declarations of a class": 9,
    "two functions": 12,
}


@pytest.mark.parametrize("name", TWICE)
def test_two_definitions_of_one_name(tmp_path: Path, name: str) -> None:
    problems = _flatten(tmp_path, CALLS, HEAD + TWICE[name])
    assert isinstance(problems, tuple), problems.text
    assert problems[0].code == "PG100" and problems[0].hint, problems
    assert problems[0].at.path == "toypack/modular_toy_fast.py", problems
    assert problems[0].at.line == LINES[name], problems


def test_a_parameter_that_an_override_does_not_take(tmp_path: Path) -> None:
    parent = "class ToyMLP:\n    def forward(self, x, mask=None, *, new=0):\n        return x\n"
    modular = f"{HEAD}class ToyMLP(toy.ToyMLP):\n    def forward(self, x, mask=None):\n        return x * 2\n"
    found = _flatten(tmp_path, parent, modular)
    assert isinstance(found, FlatFile), found
    assert any("new" in note.what and "forward" in note.what for note in found.notes), found.notes


def test_there_is_no_note_where_everything_is_taken(tmp_path: Path) -> None:
    parent = "class ToyMLP:\n    def forward(self, x, mask=None, *, new=0):\n        return x\n"
    modular = f"{HEAD}class ToyMLP(toy.ToyMLP):\n    def forward(self, x, **kwargs):\n        return x * 2\n"
    found = _flatten(tmp_path, parent, modular)
    assert isinstance(found, FlatFile) and not found.notes
