"""Changes that people make in a copy of a modeling file, as functions from text to text.

A kind takes the text with a source of chance and gives another text; it raises LookupError where the
file has no place for it.  `more_changes.py` has others.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from random import Random

Function = ast.FunctionDef


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
