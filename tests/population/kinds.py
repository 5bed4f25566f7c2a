"""Modular files of the kinds that engineers write, made mechanically of a model's text.

In each text `hf` is the model's module.  `renames` says which class of the model a new class stands
for; a class of the same name stands for it anyway.  `oracle` is the model's own file, in which each
class of the modular file stands below the one that it takes the place of: Python itself inherits.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from random import Random

from tests.population.models import Model, arguments_of, models

NEW, SECOND = "Tiny", "Other"  # prefixes of new models
ROLES = {
    "attention": r"Attention$",
    "layer": r"(Decoder|Encoder)?Layer$",
    "block": r"Block$",
    "mlp": r"(MLP|Mlp|FeedForward|FFN|Intermediate)$",
}
STATES = ("hidden_states", "hidden_state", "x", "inputs", "input", "features", "query_states")
# A parameter to halve in a function that is replaced.
HALVED = ("scaling", "x", "q", "hidden_states", "query")


@dataclass(frozen=True)
class Case:
    """One modular file."""

    kind: str
    form: str
    model: Model
    body: str
    imports: tuple[str, ...] = ()
    renames: dict[str, str] = field(default_factory=dict)  # new name: the model's
    head: str = ""  # to be built, under its new name
    fields: dict[str, object] = field(default_factory=dict)  # new ones of the configuration

    @property
    def name(self) -> str:
        return re.sub(r"\W", "_", f"{self.kind}_{self.form}_{self.model.name}")

    @property
    def text(self) -> str:
        lines = [f'"""{self.model.name}: {self.form}."""\n', *self._imports()]
        lines += [f"from {self.model.module.rpartition('.')[0]} import {self.model.path.stem} as hf"]
        text = "\n".join(lines) + f"\n\n\n{self.body.strip()}\n"
        return text

    def _imports(self) -> list[str]:
        used = [s for n, s in (("torch", "import torch"), ("nn", "from torch import nn")) if re.search(rf"\b{n}\.", self.body)]
        return list(dict.fromkeys([*used, *self.imports]))

    @property
    def oracle(self) -> str:
        """The model's file with what the modular file defines."""
        lines = self.model.text.split("\n")
        ends = {getattr(n, "name", ""): n.end_lineno for n in self.model.tree.body}
        below: dict[int, list[str]] = {}
        waiting: list[str] = []
        for node in ast.parse(self.body).body:
            name = getattr(node, "name", "") or ast.unparse(node).partition(" =")[0]
            if name.endswith("Config") and name in self.renames:
                continue
            waiting.append(self._as_parent(node))
            line = ends.get(self.renames.get(name, name))
            if line is not None:
                below.setdefault(line, []).extend(waiting)
                waiting = []
        top = next(n for n in self.model.tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef))
        first = min([top.lineno, *(d.lineno for d in top.decorator_list)])
        below.setdefault(first - 1, []).extend(self._imports())
        return "\n".join(
            [f"{line}\n" + "\n\n".join(below[i]) + "\n" if i in below else line for i, line in enumerate(lines, 1)]
            + waiting
        )

    def _as_parent(self, node: ast.stmt) -> str:
        text = re.sub(r"\bhf\.(\w+)", r"\1", ast.unparse(node))
        return re.sub(r"\b\w+\b", lambda word: self.renames.get(word[0], word[0]), text)


Maker = Callable[[Model, Random], Iterator[Case]]


# --- what a class of one's own is


def own_class(model: Model, name: str, new: str, form: str) -> str:
    """`name` with a small change; "" where the form does not fit."""
    init, forward = model.method(name, "__init__"), model.method(name, "forward")
    top = f"class {new}(hf.{name}):\n"
    if form == "method":
        return f"{top}    def count_parameters(self):\n        return sum(p.numel() for p in self.parameters())\n"
    if form == "attribute" and init:
        return (
            f"{top}    def __init__({model.signature(init)}):\n"
            f"        super().__init__({arguments_of(init)})\n        self.extra_scale = 0.5\n"
        )
    if form == "halved" and forward and arguments_of(forward).split(",")[0] in STATES:
        return (
            f"{top}    def forward({model.signature(forward)}):\n"
            f"        return super().forward({arguments_of(forward, '{} * 0.5')})\n"
        )
    if form == "whole" and "torch" in model.imports and "nn" in model.imports:
        node = model.classes[name]
        text = model.qualified(node)
        text = text[text.index(f"class {name}") :].replace(f"class {name}", f"class {new}", 1)
        if not re.search(rf"\b{name}\b", text) and not _unbound(model, node):
            return f"{text}\n"
    return ""


def _unbound(model: Model, node: ast.AST) -> bool:
    """Whether it reads what the file imports under a condition."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    conditional = {
        alias.asname or alias.name
        for branch in model.tree.body
        if isinstance(branch, ast.If | ast.Try)
        for n in ast.walk(branch)
        if isinstance(n, ast.Import | ast.ImportFrom)
        for alias in n.names
    }
    return bool(names & conditional)


def of_role(model: Model, role: str) -> list[str]:
    """The classes of a role that the main head is made of."""
    mine = model.reachable(model.head) & {*model.renamable(model.prefix)}
    return sorted(n for n in mine if re.search(ROLES[role], n) and model.method(n, "forward"))


def new_name(model: Model, name: str, prefix: str = NEW) -> str:
    return prefix + name.removeprefix(model.prefix)


def new_model(model: Model, kind: str, form: str, body: str, names: list[str], **more: object) -> Case:
    """A new model: `body`, and the head."""
    renames = {new_name(model, name): name for name in [*names, model.head]}
    head = new_name(model, model.head)
    if head not in body:
        body += f"\n\nclass {head}(hf.{model.head}):\n    pass\n"
    imports = tuple(model.needed_imports(body))
    return Case(kind, form, model, body, imports, renames, head, **more)


# --- a to g


def block(model: Model, random: Random) -> Iterator[Case]:
    """A new model with an attention, layer, block or MLP class of its own."""
    for role in ROLES:
        names = of_role(model, role)
        if not names:
            continue
        name = random.choice(names)
        for form in random.sample(["method", "attribute", "halved", "whole"], 4):
            if body := own_class(model, name, new_name(model, name), form):
                yield new_model(model, "block", f"{role}-{form}", body, [name])
                break


KINDS: dict[str, Maker] = {"block": block}


def cases(model: Model, kind: str, seed: int) -> list[Case]:
    """The files of one kind for a model."""
    if not model.head:
        return []
    return list(KINDS[kind](model, Random(f"{seed} {kind} {model.name}")))
