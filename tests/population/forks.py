"""Forks at random: copies of modeling files with one to five changes of the kinds people make.

    fork = make_fork(Model(path), seed)      the text, the kinds of its changes, and what it started from
    judge(fork, release)                     adopts it, and compares the result by means of its own

A kind takes the text and a source of chance and gives another text; it raises LookupError where the
file has no place for it.
"""

from __future__ import annotations

import ast
import difflib
import re
import symtable
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from patchgen.author.adopt.parents import candidate, find_file
from patchgen.author.adopt.read import read_fork
from patchgen.author.adopt.releases import Release
from patchgen.author.adopt.work import Adopted, adopt
from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import PatchgenError
from tests.population.models import HEADS, Model

Function = ast.FunctionDef
# What an edit may cost beside the lines that the diff adds.
A_HUNK, A_FILE = 6, 6


@dataclass(frozen=True)
class Text:
    """A file that is being changed."""

    text: str
    random: Random

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        return [node for node in self.tree.body if isinstance(node, ast.ClassDef)]

    @cached_property
    def words(self) -> set[str]:
        return set(re.findall(r"\w+", self.text))

    def methods(self, least: int = 3) -> list[tuple[ast.ClassDef, Function]]:
        """The methods with at least so many statements."""
        pairs = [(c, m) for c in self.classes for m in c.body if isinstance(m, Function)]
        return [(c, m) for c, m in pairs if len(code_of(m)) >= least]

    def method(self, least: int = 3) -> tuple[ast.ClassDef, Function]:
        return self.random.choice(self.methods(least))

    def source(self, node: ast.AST) -> str:
        return ast.get_source_segment(self.text, node) or ""

    def replace(self, *changes: tuple[ast.AST, str]) -> Text:
        """The text with another one for each node."""
        lines = self.text.encode().split(b"\n")
        for node, text in sorted(changes, key=lambda c: (-c[0].lineno, -c[0].col_offset)):
            first, last = node.lineno - 1, node.end_lineno - 1
            whole = (
                lines[first][: node.col_offset] + text.encode() + lines[last][node.end_col_offset :]
            )
            lines[first : last + 1] = [whole]
        return self.of(b"\n".join(lines).decode())

    def insert(self, line: int, text: str) -> Text:
        """The text with more lines behind `line`."""
        lines = self.text.split("\n")
        return self.of("\n".join([*lines[:line], *text.split("\n"), *lines[line:]]))

    def remove(self, node: ast.AST) -> Text:
        lines = self.text.split("\n")
        del lines[first_line(node) - 1 : node.end_lineno]
        return self.of("\n".join(lines))

    def of(self, text: str) -> Text:
        return Text(text, self.random)

    def free(self, *names: str) -> str:
        """A name that the file does not have."""
        return self.random.choice([name for name in names if name not in self.words])

    def imported(self, line: str) -> Text:
        """The text with one more import, below the others."""
        last = max(
            n.end_lineno or 0 for n in self.tree.body if isinstance(n, ast.ImportFrom | ast.Import)
        )
        return self if line in self.text.split("\n") else self.insert(last, line)

    def above_classes(self, text: str) -> Text:
        """The text with another statement above a random class."""
        node = self.random.choice(self.classes)
        return self.insert(first_line(node) - 1, f"{text}\n\n")


def first_line(node: ast.AST) -> int:
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])


def code_of(function: Function) -> list[ast.stmt]:
    has_text = isinstance(function.body[0], ast.Expr) and isinstance(
        function.body[0].value, ast.Constant
    )
    return function.body[has_text:]


def names_of(node: ast.AST) -> Iterator[ast.Name]:
    return (n for n in ast.walk(node) if isinstance(n, ast.Name))


def assigned(text: Text, least: int = 3) -> tuple[Function, ast.Assign, str]:
    """A method and a statement of its body that assigns a plain local."""
    pairs = [
        (method, statement, target.id)
        for _, method in text.methods(least)
        if method.args.args and method.args.args[0].arg == "self"
        for statement in code_of(method)
        if isinstance(statement, ast.Assign)
        and isinstance(target := statement.targets[0], ast.Name)
        if not any(isinstance(n, ast.Constant | ast.List | ast.Tuple) for n in [statement.value])
    ]
    return text.random.choice(pairs)


def indent(text: str, columns: int) -> str:
    return "\n".join(" " * columns + line if line else line for line in text.split("\n"))


# The kinds


def put_statement_in(text: Text) -> Text:
    _, statement, name = assigned(text)
    more = text.random.choice(
        [
            f"{name} = {name}.contiguous()",
            f"if self.training:\n    {name} = {name} * 0.5",
            f"# ours: keep it small\n{name} = {name}.clamp(-10, 10)\n{name} = {name} + 0.0",
            f"assert {name} is not None, 'nothing'",
        ]
    )
    return text.insert(statement.end_lineno, indent(more, statement.col_offset))


def put_statement_first(text: Text) -> Text:
    _, method = text.method(2)
    parameters = [a.arg for a in method.args.args[1:]] or ["self"]
    name = text.random.choice(parameters)
    first = code_of(method)[0]
    return text.insert(first_line(first) - 1, indent(f"print({name!r}, {name})", first.col_offset))


def remove_statement(text: Text) -> Text:
    pairs = [
        s
        for _, method in text.methods(4)
        for s in code_of(method)[1:-1]
        if isinstance(s, ast.Expr | ast.Assign | ast.If | ast.AugAssign)
        # What is called has to stay.
        if method.name != "__init__"
    ]
    return text.remove(text.random.choice(pairs))


def change_expression(text: Text) -> Text:
    inside = [n for _, m in text.methods(2) for s in code_of(m) for n in ast.walk(s)]
    operations = [
        n for n in inside if isinstance(n, ast.BinOp | ast.Call) and n.lineno == n.end_lineno
    ]
    node = text.random.choice([n for n in operations if not re.search("['\"]", text.source(n))])
    return text.replace(
        (node, text.random.choice(["({} * 2)", "abs({})"]).format(text.source(node)))
    )


def change_number(text: Text) -> Text:
    inside = [n for _, m in text.methods(1) for s in code_of(m) for n in ast.walk(s)]
    numbers = [n for n in inside if isinstance(n, ast.Constant) and type(n.value) in (int, float)]
    node = text.random.choice(numbers)
    return text.replace((node, repr(node.value + 2)))


def wrap_in_condition(text: Text) -> Text:
    _, statement, _ = assigned(text)
    lines = text.text.split("\n")
    inner = lines[statement.lineno - 1 : statement.end_lineno]
    column = statement.col_offset
    lines[statement.lineno - 1 : statement.end_lineno] = [
        " " * column + "if self.training is not None:",
        *(f"    {line}" if line.strip() else line for line in inner),
    ]
    return text.of("\n".join(lines))


def rename_local(text: Text) -> Text:
    method, _, name = assigned(text)
    parameters = {a.arg for a in ast.walk(method.args) if isinstance(a, ast.arg)}
    nested = [
        n for n in ast.walk(method) if isinstance(n, Function | ast.Lambda) and n is not method
    ]
    if name in parameters or nested:
        raise LookupError(name)
    new = text.free(f"{name}_out", f"my_{name}")
    return text.replace(*((n, new) for n in names_of(method) if n.id == name))


def thread_argument(text: Text) -> Text:
    """`scale` from a layer through to what it holds."""
    classes = {c.name: c for c in text.classes}
    forward = {
        name: m
        for name, c in classes.items()
        for m in c.body
        if isinstance(m, Function) and m.name == "forward"
    }
    choices = []
    for outer, method in forward.items():
        held = dict(re.findall(r"self\.(\w+) = (\w+)\(", text.source(classes[outer])))
        for call in (n for n in ast.walk(method) if isinstance(n, ast.Call)):
            inner = held.get(ast.unparse(call.func).removeprefix("self."), "")
            if (
                inner in forward
                and inner != outer
                and isinstance(forward[inner].body[-1], ast.Return)
            ):
                choices.append((outer, call, inner))
    outer, call, inner = text.random.choice(choices)
    name = text.free("gate_scale", "temperature", "adarms_cond", "strength")
    default = text.random.choice(["1.0", "None"])
    hint = text.random.choice(["", ": Optional[float]" if "Optional" in text.words else ": float"])
    (result,) = [s for s in forward[inner].body if s is forward[inner].body[-1]]
    changed = (
        f"if {name} is not None:\n    print({name})"
        if default == "None"
        else f"{name} = 2 * {name}"
    )
    source = text.source(call)
    comma = "" if source.rstrip(")").rstrip().endswith((",", "(")) else ", "
    passed = f"{source[:-1].rstrip()}{comma}{name}={name})"
    changes = [(call, passed)]
    for method in (forward[inner], forward[outer]):
        changes.append(add_parameter(text, method, name, hint, default))
    made = text.replace(*changes)
    # The call and the signatures may have become longer; the last statement is found anew.
    method = next(
        m
        for c in made.classes
        if c.name == inner
        for m in c.body
        if getattr(m, "name", "") == "forward"
    )
    return made.insert(method.body[-1].lineno - 1, indent(changed, result.col_offset))


def add_parameter(
    text: Text, method: Function, name: str, hint: str, default: str
) -> tuple[ast.AST, str]:
    """A change of the last plain parameter: with another one behind it."""
    args = method.args
    if args.vararg or args.kwonlyargs or len(args.args) < 2:
        raise LookupError(name)
    last = args.args[-1]
    written = f"{name}{hint}{' = ' if hint else '='}{default}"
    if args.defaults:
        value = args.defaults[-1]
        return value, f"{text.source(value)}, {written}"
    return last, f"{text.source(last)}, {written}"


def add_parameter_alone(text: Text) -> Text:
    _, method = text.random.choice([(c, m) for c, m in text.methods(2) if m.name == "forward"])
    name = text.free("probe", "extra_bias")
    first = code_of(method)[0]
    use = indent(f"if {name} is not None:\n    {name} = {name} + 1", first.col_offset)
    made = text.insert(first_line(first) - 1, use)
    (method,) = [m for _, m in made.methods(1) if m.lineno == method.lineno]
    return made.replace(add_parameter(made, method, name, "", "None"))


def remove_parameter(text: Text) -> Text:
    """A parameter that its method does not read."""
    choices = []
    # A model is called from outside; what calls other classes by position would not fit.
    for owner, method in text.methods(2):
        if "For" not in owner.name or method.name != "forward":
            continue
        body = {n.id for s in method.body for n in names_of(s)}
        for arg, default in zip(method.args.args[::-1], method.args.defaults[::-1], strict=False):
            if (
                arg.arg not in body
                and arg.lineno != method.lineno
                and arg.lineno == default.end_lineno
            ):
                choices.append(arg)
    arg = text.random.choice(choices)
    lines = text.text.split("\n")
    if re.fullmatch(r"\s*\w+[^,]*(\[.*\])?.*,", lines[arg.lineno - 1]) is None:
        raise LookupError("it shares its line")
    del lines[arg.lineno - 1]
    return text.of("\n".join(lines))


def change_default(text: Text) -> Text:
    nodes = [d for _, m in text.methods(1) for d in m.args.defaults if isinstance(d, ast.Constant)]
    node = text.random.choice(nodes)
    new = (
        {None: "False", False: "True", True: "False"}.get(node.value, "7")
        if not isinstance(node.value, int | float) or isinstance(node.value, bool)
        else repr(node.value + 1)
    )
    return text.replace((node, new))


def change_annotation_and_docstring(text: Text) -> Text:
    nodes = [a for _, m in text.methods(1) for a in m.args.args if a.annotation is not None]
    made = text.replace((text.random.choice(nodes).annotation, "Any"))
    made = made.imported("from typing import Any")
    node = made.random.choice([c for c in made.classes if ast.get_docstring(c) is None])
    return made.insert(
        node.body[0].lineno - 1 - len(getattr(node.body[0], "decorator_list", [])),
        indent('"""Ours."""\n', 4),
    )


def rewrite_method(text: Text) -> Text:
    method = text.random.choice([m for _, m in text.methods(3) if m.name != "__init__"])
    body = code_of(method)
    kept = body[: len(body) // 3]
    returned = isinstance(body[-1], ast.Return)
    new = ["# rewritten", "total = 0", "for number in range(3):", "    total = total + number"]
    new += [
        f"{text.source(body[-1])}"
        if returned and not names_of_locals(body[-1], method)
        else "return total"
    ]
    first, last = body[len(kept)], body[-1]
    lines = text.text.split("\n")
    lines[first_line(first) - 1 : last.end_lineno] = indent("\n".join(new), first.col_offset).split(
        "\n"
    )
    return text.of("\n".join(lines))


def names_of_locals(node: ast.AST, method: Function) -> set[str]:
    stored = {n.id for n in names_of(method) if isinstance(n.ctx, ast.Store)}
    return {n.id for n in names_of(node)} & stored


def add_constant(text: Text) -> Text:
    name = text.free("SCALE", "MAX_GATE", "_LIMIT")
    made = text.above_classes(f"{name} = {text.random.choice(['7.0', '(1, 2)', '{}'])}")
    if text.random.random() < 0.5:
        return made
    return call_somewhere(made, f"print({name})")


def call_somewhere(text: Text, call: str) -> Text:
    _, method = text.method(2)
    first = code_of(method)[0]
    return text.insert(first_line(first) - 1, indent(call, first.col_offset))


def add_helper(text: Text) -> Text:
    name = text.free("soft_cap", "count_all", "_gather")
    code = f"def {name}(x, cap=30.0):\n    # ours\n    return cap * torch.tanh(x / cap)"
    made = text.above_classes(code)
    _, statement, local = assigned(made)
    used = f"{local} = {name}({local})" if text.random.random() < 0.8 else f"# {name} comes later"
    return made.insert(statement.end_lineno, indent(used, statement.col_offset))


def add_class(text: Text) -> Text:
    name = text.free("GateNet", "Compressor", "LoRALinear")
    code = f"""class {name}(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.proj = nn.Linear(size, size, bias=False)

    def forward(self, x):
        return self.proj(x).sigmoid()"""
    made = text.above_classes(code)
    owners = [
        m for _, m in made.methods(2) if m.name == "__init__" and isinstance(m.body[0], ast.Expr)
    ]
    method = text.random.choice(owners)
    return made.insert(method.body[0].end_lineno, indent(f"self.gate_net = {name}()", 8))


def change_base(text: Text) -> Text:
    if text.random.random() < 0.5:
        node = text.random.choice([c for c in text.classes if c.bases])
        name = text.free("StreamingMixin", "CompressedMixin")
        made = text.replace((node.bases[0], f"{name}, {text.source(node.bases[0])}"))
        code = f"class {name}:\n    window = 4\n\n    def reset(self):\n        self.window = 0\n\n"
        return made.insert(first_line(node) - 1, code)
    node = text.random.choice(
        [c for c in text.classes if [*map(ast.unparse, c.bases)] == ["nn.Module"]]
    )
    other = text.random.choice(["torch.nn.Sequential", "nn.ModuleDict"])
    return text.replace((node.bases[0], other))


def delete_class(text: Text) -> Text:
    names = Counter(n.id for n in names_of(text.tree))
    nodes = [c for c in text.classes if not names[c.name] and len(text.classes) > 3]
    node = text.random.choice(nodes)
    made = text.remove(node)
    return made.of(re.sub(rf'^\s+"{node.name}",\n', "", made.text, flags=re.M))


def change_decorator(text: Text) -> Text:
    decorated = [
        (m, d)
        for _, m in text.methods(1)
        for d in m.decorator_list
        if ast.unparse(d) not in ("property", "staticmethod", "classmethod")
        and "setter" not in ast.unparse(d)
    ]
    if decorated and text.random.random() < 0.5:
        method, node = text.random.choice(decorated)
        lines = text.text.split("\n")
        del lines[node.lineno - 1 : node.end_lineno]
        return text.of("\n".join(lines))
    _, method = text.random.choice([(c, m) for c, m in text.methods(1) if not m.decorator_list])
    return text.insert(method.lineno - 1, indent("@torch.no_grad()", 4))


def move_member(text: Text) -> Text:
    nodes = [c for c in text.classes if sum(isinstance(m, Function) for m in c.body) > 1]
    methods = [m for m in text.random.choice(nodes).body if isinstance(m, Function)]
    first, second = methods[:2]
    lines = text.text.split("\n")
    above = lines[first_line(first) - 1 : first.end_lineno]
    between = lines[first.end_lineno : first_line(second) - 1]
    below = lines[first_line(second) - 1 : second.end_lineno]
    lines[first_line(first) - 1 : second.end_lineno] = [*below, *between, *above]
    return text.of("\n".join(lines))


def add_member(text: Text) -> Text:
    node = text.random.choice(text.classes)
    name = text.free("report", "set_window", "gate_value")
    code = f"    def {name}(self, value=1):\n        self._{name} = value\n        return self\n"
    places = [m for m in node.body if isinstance(m, Function)] or node.body[-1:]
    place = text.random.choice(places)
    if text.random.random() < 0.3:
        return text.insert(node.body[-1].end_lineno, f"\n    {name} = 3")
    return text.insert(place.end_lineno, f"\n{code.rstrip()}")


def delete_member(text: Text) -> Text:
    nodes = [
        m
        for c in text.classes
        if len(c.body) > 2
        for m in c.body
        if isinstance(m, Function)
        and m.name not in ("__init__", "forward")
        and not m.decorator_list
        # What is called has to stay.
        and len(re.findall(rf"\b{m.name}\b", text.text)) == 1
    ]
    return text.remove(text.random.choice(nodes))


def change_attribute(text: Text) -> Text:
    nodes = [
        s
        for c in text.classes
        for s in c.body
        if isinstance(s, ast.Assign) and isinstance(s.value, ast.Constant | ast.List)
    ]
    node = text.random.choice(nodes)
    value = node.value
    if isinstance(value, ast.Constant):
        return text.replace(
            (value, repr(not value.value) if isinstance(value.value, bool) else '"mine"')
        )
    items = [text.source(item) for item in value.elts]
    return text.replace((value, f"[{', '.join([*items, repr('Nothing')])}]"))


def rename_class(text: Text) -> Text:
    node = text.random.choice(text.classes)
    new = text.free(f"{node.name}X", f"My{node.name}")
    return text.of(re.sub(rf"\b{node.name}\b", new, text.text))


def rename_prefix(text: Text) -> Text:
    named = [
        c.name.removesuffix("PreTrainedModel")
        for c in text.classes
        if c.name.endswith("PreTrainedModel")
    ]
    prefix = text.random.choice([name for name in named if name])
    new = text.random.choice(["Tiny", "Long"])
    names = [c.name for c in text.classes if re.match(rf"{prefix}[A-Z]", c.name)]
    renamed = {n: new + n.removeprefix(prefix) for n in names}
    if len(names) < 3 or text.words & {*renamed.values()}:
        raise LookupError(prefix)
    either = "|".join(sorted(names, key=len, reverse=True))
    return text.of(re.sub(rf"\b({either})\b", lambda m: renamed[m[1]], text.text))


def import_own(text: Text) -> Text:
    """Names of the fork's own package."""
    module = text.free("utils_local", "kernels_local")
    names = ["fast_norm", "KeepCache", "shift_kv"][: text.random.randint(1, 3)]
    dots = text.random.choice([".", ".", ".."])
    wrapped = (
        f"({', '.join(names)})"
        if len(names) == 3 and text.random.random() < 0.5
        else ", ".join(names)
    )
    made = text.imported(f"from {dots}{module} import {wrapped}")
    _, statement, local = assigned(made)
    code = "\n".join(
        f"{local} = {name}({local})" for name in names[: text.random.randint(1, len(names))]
    )
    return made.insert(statement.end_lineno, indent(code, statement.col_offset))


def import_guarded(text: Text) -> Text:
    way = text.random.randint(0, 2)
    if way == 0:
        made = text.imported("from transformers.utils import is_flash_attn_2_available")
        code = (
            "if is_flash_attn_2_available():\n    from flash_attn import flash_attn_qkvpacked_func"
        )
        name = "flash_attn_qkvpacked_func"
    elif way == 1:
        made, name = text, "xops"
        code = "try:\n    import xformers.ops as xops\nexcept ImportError:\n    xops = None"
    else:
        made = text.imported("from transformers.utils import is_flash_attn_2_available")
        name = "rotary_kernel"
        code = (
            "if is_flash_attn_2_available():\n    from flash_attn.layers.rotary import apply_rotary as rotary_kernel\n"
            "else:\n    rotary_kernel = None"
        )
    if name in text.words:
        raise LookupError(name)
    last = max(
        n.end_lineno or 0 for n in made.tree.body if isinstance(n, ast.ImportFrom | ast.Import)
    )
    made = made.insert(last, f"\n{code}\n")
    return call_somewhere(made, f"print({name})") if text.random.random() < 0.8 else made


def import_more(text: Text) -> Text:
    line, name = text.random.choice(
        [
            ("import math", "math"),
            ("import numpy as np", "np"),
            ("from einops import rearrange", "rearrange"),
            ("import torch.distributed as dist", "dist"),
        ]
    )
    if name in text.words:
        raise LookupError(name)
    return call_somewhere(text.imported(line), f"print({name})")


def stand_at_top(text: Text) -> Text:
    """A statement that nobody reads."""
    code = text.random.choice(
        [
            "DEFAULT_WINDOW = 128",
            "__version__ = '0.2'",
            "VERBOSE: bool = False",
            'SETTINGS = {"a": 1}\nSETTINGS["b"] = 2',
        ]
    )
    if code.split()[0].strip(":") in text.words:
        raise LookupError(code)
    return text.above_classes(code)


KINDS: dict[str, Callable[[Text], Text]] = {
    kind.__name__: kind
    for kind in (
        put_statement_in, put_statement_first, remove_statement, change_expression, change_number,
        wrap_in_condition, rename_local, thread_argument, add_parameter_alone, remove_parameter,
        change_default, change_annotation_and_docstring, rewrite_method, add_constant, add_helper,
        add_class, change_base, delete_class, change_decorator, move_member, add_member,
        delete_member, change_attribute, rename_class, rename_prefix, import_own, import_guarded,
        import_more, stand_at_top,
    )
}  # fmt: skip


@dataclass(frozen=True)
class Fork:
    """A changed copy of a model; `base` is the copy before the changes."""

    model: Model
    seed: int
    kinds: tuple[str, ...]
    base: str
    text: str

    @property
    def asked(self) -> tuple[int, int]:
        """The lines that the diff adds, and its hunks."""
        old, new = ([line.rstrip() for line in t.split("\n")] for t in (self.base, self.text))
        blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        changed = [(j, m) for tag, _, _, j, m in blocks if tag != "equal"]
        return sum(1 for j, m in changed for line in new[j:m] if line.strip()), len(changed)

    @property
    def most(self) -> int:
        """The lines that its declaration may have."""
        added, hunks = self.asked
        return added + A_HUNK * hunks + A_FILE


def make_fork(model: Model, seed: int) -> Fork:
    """One to five random changes of a model's file."""
    random = Random(f"{seed} {model.name}")
    base = as_copied(model, random.choice(["absolute", "inside", "hub"]))
    text, kinds = Text(base, random), []
    wanted = random.randint(1, 5)
    names = [*KINDS]
    # Some changes do nothing: documentation, the order of members, what is left out.
    while len(kinds) < wanted or not differences(text.tree, ast.parse(base)):
        kind = random.choice(names)
        try:
            made = KINDS[kind](text)
            if unbound(made.text) - unbound(text.text):
                continue
        except (LookupError, SyntaxError, ValueError):
            continue
        if made.text != text.text:
            text = made
            kinds.append(kind)
    return Fork(model, seed, tuple(kinds), base, text.text)


def unbound(text: str) -> set[str]:
    """The names that a file reads and nowhere binds; raises SyntaxError where it is not Python."""
    compile(text, "fork.py", "exec")
    unbound: set[str] = set()
    tables = [symtable.symtable(text, "fork.py", "exec")]
    top = {s.get_name() for s in tables[0].get_symbols() if s.is_assigned() or s.is_imported()}
    for table in tables:
        tables += table.get_children()
        unbound |= {
            s.get_name() for s in table.get_symbols() if s.is_global() and s.is_referenced()
        }
    return unbound - top - {s.get_name() for s in tables[0].get_symbols() if s.is_namespace()}


def as_copied(model: Model, way: str) -> str:
    """The model's file with imports as a copy of it has them."""
    package = model.module.rpartition(".")[0]
    dots = [
        ("....", "."),
        ("...", "transformers."),
        ("..", "transformers.models."),
        (".", f"{package}."),
    ]
    text = model.text
    if way == "inside":
        return text
    for level, full in dots[1:]:
        if way == "hub" and level == ".":
            continue
        text = re.sub(
            rf"^(\s*from ){re.escape(level)}(?!\.)( ?)", rf"\g<1>{full}\2", text, flags=re.M
        )
    return re.sub(r"^(\s*from transformers(?:\.models)?)\.( import)", r"\1\2", text, flags=re.M)


def forks(release: Release, count: int, seed: int) -> Iterator[Fork]:
    """Forks of models that people use, of a release."""
    folder = release.root() / "transformers" / "models"
    paths = sorted(folder.glob("*/modeling_*.py"))
    models = [
        Model(path) for path in paths if not re.search("modeling_(tf|flax|auto)_?", path.name)
    ]
    models = [m for m in models if m.path.stem.removeprefix("modeling_") == m.path.parent.name]
    models = [
        m
        for m in models
        if m.classes and any(re.search(f"{h}$", n) for h in HEADS for n in m.classes)
    ]
    random = Random(f"{seed} {release.version}")
    for number, model in enumerate(random.sample(models, min(count, len(models)))):
        yield make_fork(model, 1000 * seed + number)


@dataclass(frozen=True)
class Result:
    """What became of a fork: "equal", "not", "refused", or "wrong": called equal, and is not."""

    fork: Fork
    state: str
    why: str
    lines: int
    seconds: float
    declaration: str = ""

    @property
    def is_short(self) -> bool:
        return self.lines <= self.fork.most


def judge(fork: Fork, release: Release) -> Result:
    """Adopt a fork, and compare what comes out with it."""
    began = time.process_time()
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"modeling_{fork.model.name}_mine.py"
        path.write_text(fork.text, encoding="utf-8")
        try:
            read = read_fork(path, path.name, Settings())
            found = candidate(read, release, *find_file(release, fork.model.module))
            made = adopt(
                found.forked, path.name.replace("ing_", "ular_"), release.root(), Settings()
            )
        except PatchgenError as error:
            return Result(fork, "refused", str(error), 0, time.process_time() - began)
    spent = time.process_time() - began
    if not made.proof.holds:
        return Result(fork, "not", why_not(made), made.lines, spent, made.text)
    wrong = differences(read.tree, ast.parse(made.proof.output))
    return Result(
        fork, "wrong" if wrong else "equal", "; ".join(wrong), made.lines, spent, made.text
    )


def describe(result: Result) -> str:
    """A line about a fork that is not right, or long."""
    fork = result.fork
    said = f"{result.state} {fork.model.name} seed {fork.seed}: {result.lines} of {fork.most} lines"
    return f"{said}, {', '.join(fork.kinds)}: {result.why}"


def why_not(made: Adopted) -> str:
    proof = made.proof
    first = next((str(p).split("\n")[0] for p in proof.problems), "")
    return (
        first
        or f"differ {proof.differ} missing {proof.missing} lost {[*map(ast.unparse, proof.lost)]}"
    )


# What documents and does nothing.
DOCUMENTING = re.compile(
    r"\w*(add_start_docstrings|add_code_sample|replace_return_docstrings|add_end_docstrings|auto_docstring)"
)


class _Bare(ast.NodeTransformer):
    """Without docstrings, annotations of parameters, and decorators that document."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            node.decorator_list = [
                d
                for d in node.decorator_list
                if not DOCUMENTING.match(ast.unparse(getattr(d, "func", d)).rpartition(".")[2])
            ]
            node.body = [
                s
                for s in node.body
                if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
                and not (isinstance(s, ast.AnnAssign) and s.value is None)
                and not isinstance(s, ast.Pass)
            ] or [ast.Pass()]
            if not isinstance(node, ast.ClassDef):
                node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        return super().generic_visit(node)


def differences(fork: ast.Module, output: ast.Module) -> list[str]:
    """What of a fork is not in an output, by the trees alone."""
    wrong = []
    # The converter names the output's own models where AutoModel would build transformers'.
    texts = [
        re.sub(r"\b\w+\._?from_config\(", "AutoModel.from_config(", ast.unparse(t))
        for t in (fork, output)
    ]
    bare = [_Bare().visit(ast.parse(text)) for text in texts]
    mine, theirs = ({getattr(s, "name", ""): s for s in tree.body} for tree in bare)
    for name, node in mine.items():
        if not name:
            continue
        if name not in theirs:
            wrong.append(f"{name} is missing")
        elif isinstance(node, ast.ClassDef):
            wrong += [f"{name}: {what}" for what in _of_class(node, theirs[name])]
        elif ast.dump(node) != ast.dump(theirs[name]):
            wrong.append(f"{name} differs")
    there = {ast.unparse(s) for s in bare[1].body}
    for node in bare[0].body:
        said = ast.unparse(node)
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        plain = not isinstance(node, ast.ClassDef | Function | ast.Import | ast.ImportFrom)
        if plain and not is_text and said not in there and not _is_upkeep(node):
            wrong.append(f"`{said[:60]}` is missing")
    return wrong


def _of_class(mine: ast.ClassDef, theirs: ast.ClassDef) -> Iterator[str]:
    written = {"is_custom_code"}
    texts = []
    for node in (mine, theirs):
        members = [s for s in node.body if getattr(s, "name", "") not in written]
        heads = [*map(ast.unparse, node.bases), *map(ast.unparse, node.decorator_list)]
        texts.append((heads, sorted(ast.dump(s) for s in members if not isinstance(s, ast.Pass))))
    if texts[0][0] != texts[1][0]:
        yield f"{texts[0][0]} is {texts[1][0]}"
    more = [s for s in texts[1][1] if s not in texts[0][1]]
    less = [s for s in texts[0][1] if s not in texts[1][1]]
    # A head of transformers is put on the file's own model.
    if less or any(
        "super(GenericFor" not in ast.unparse(ast.parse("")) and "GenericFor" not in s for s in more
    ):
        yield f"{len(less)} members are not there, {len(more)} others are"


def _is_upkeep(node: ast.stmt) -> bool:
    """What only documents, logs or exports, and the checks of what is installed."""
    if isinstance(node, ast.Assign):
        name = ast.unparse(node.targets[0])
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return name.startswith("_") or "DOCSTRING" in name
        return name in ("logger", "__all__") or "PRETRAINED" in name
    return isinstance(node, ast.If | ast.Try) and any(
        isinstance(n, ast.Import | ast.ImportFrom) for n in ast.walk(node)
    )
