"""A modeling module of the installed transformers, as classes, methods and attributes.

Takes the name of a model, such as `mpnet`; returns a frozen `Module`, whose classes have the
members of their bases in the same file.  The file is read: nothing of transformers is imported.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from patchgen.author.anatomy.code import called, constant, last, nodes_inside, walk
from patchgen.facts.modules import MODELS
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.syntax.locate import INSTALL_TRANSFORMERS, Environment
from patchgen.syntax.text import Source, parse, read_source
from patchgen.syntax.trees import assigned_values, dotted

LISTS = ("ModuleList", "Sequential")
ADDING = ("append", "insert", "extend")


class Unfit(Exception):
    """Code that a part cannot change: `node` shows it; without one, the file has nothing for it."""

    def __init__(self, node: ast.AST | None, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.node = node
        self.why = why
        self.hint = hint


@dataclass(frozen=True, eq=False)
class Class:
    """A class statement; members are looked up in the bases of the same file too."""

    name: str
    node: ast.ClassDef
    bases: tuple[str, ...]
    parents: tuple[Class, ...] = field(repr=False, default=())

    @cached_property
    def own(self) -> Mapping[str, ast.FunctionDef]:
        """The methods that the class itself defines; a later definition replaces an earlier one."""
        return {node.name: node for node in self.node.body if isinstance(node, ast.FunctionDef)}

    def method(self, name: str) -> ast.FunctionDef | None:
        """The method `name` of the class or of a base."""
        inherited = (parent.method(name) for parent in self.parents)
        return self.own.get(name) or next(filter(None, inherited), None)

    def forward(self) -> list[ast.stmt]:
        """The statements of its own forward; none if it has none."""
        return self.own["forward"].body if "forward" in self.own else []

    @cached_property
    def attributes(self) -> Mapping[str, tuple[ast.expr, ...]]:
        """The values that any method assigns to `self.NAME`."""
        assigned: dict[str, tuple[ast.expr, ...]] = defaultdict(tuple)
        for parent in reversed(self.parents):
            for name, values in parent.attributes.items():
                assigned[name] += values
        for method in self.own.values():
            for name, value in _set(method):
                assigned[name] += (value,)
        return assigned

    @cached_property
    def settings(self) -> Mapping[str, ast.expr]:
        """The attributes that the body of the class or of a base sets."""
        values: dict[str, ast.expr] = {}
        for parent in reversed(self.parents):
            values |= parent.settings
        return values | assigned_values(self.node.body)

    @property
    def is_causal(self) -> set[str]:
        """The values of `self.is_causal`; transformers takes a missing attribute as True."""
        values = [*self.attributes.get("is_causal", ())]
        if "is_causal" in self.settings:
            values.append(self.settings["is_causal"])
        return set(map(ast.unparse, values))

    def says(self, flag: str) -> bool:
        """Whether the class or a base sets the flag."""
        return constant(self.settings.get(flag)) is True

    def held(self, attribute: str) -> tuple[str, ...]:
        """The names that are called to create what `self.ATTRIBUTE` or its lists hold."""
        return self._held.get(attribute, ())

    @cached_property
    def _held(self) -> Mapping[str, tuple[str, ...]]:
        local: dict[str, list[str]] = {}  # lists and classes under local names
        appended: dict[str, list[str]] = {}
        for method in self.own.values():
            for node in walk(method.body, ast.stmt):
                match node:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value):
                        local.setdefault(name, []).extend(_created(value, local))
                    case ast.Expr(value=ast.Call(func=ast.Attribute() as added, args=[*_, value])):
                        if added.attr in ADDING:
                            target = dotted(added.value)
                            lists = appended if target.startswith("self.") else local
                            lists.setdefault(last(target), []).extend(_created(value, local))
        held = {}
        for attribute in (*self.attributes, *appended):
            names = list[str]()
            for value in self.attributes.get(attribute, ()):
                names += _created(value, local)
            names += appended.get(attribute, [])
            classes = list[str]()
            for name in names:
                classes += local.get(name, [name])
            held[attribute] = tuple(dict.fromkeys(classes))
        return held

    def descends(self, base: str) -> bool:
        """Whether `base`, by its last name, is an ancestor as far as this file shows."""
        return base in map(last, self.bases) or any(p.descends(base) for p in self.parents)


def _created(value: ast.expr, local: Mapping[str, list[str]]) -> Iterator[str]:
    """The names that may be called to create `value`: in both branches, and for items of lists."""
    match value:
        case ast.Name(id=name):
            yield from [*local.get(name, [])]  # a copy: of `x = x or y` it is what grows
        case ast.IfExp(body=ast.Name(id=body), orelse=ast.Name(id=orelse)):  # one of two classes
            yield from (body, orelse)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _created(body, local)
            yield from _created(orelse, local)
        case ast.Call() if last(called(value)) not in (*LISTS, "ModuleDict"):
            yield last(called(value))
        case ast.Call(args=m) | ast.List(elts=m) | ast.Tuple(elts=m) | ast.Dict(values=m):
            for item in m:
                yield from _created(item, local)
        case ast.ListComp(elt=item) | ast.GeneratorExp(elt=item) | ast.Starred(value=item):
            yield from _created(item, local)


def _set(method: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """The attributes of `self` that a method assigns, each with a value."""
    for node in walk(method.body, ast.stmt):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _set_by(target, value)
            case (
                ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.AugAssign(target=target, value=value)
            ):
                yield from _set_by(target, value)


def _set_by(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match target, value:
        case ast.Attribute(value=ast.Name(id="self"), attr=name), _:
            yield name, value
        case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
            for inner, item in zip(targets, values, strict=True):
                yield from _set_by(inner, item)


@dataclass(frozen=True, eq=False)
class Module:
    """A modeling file: `model` is the name of its folder, `name` its dotted module name.

    `folder` has its configuration file too; it is None for a text without a file.
    """

    model: str
    name: str
    source: Source = field(repr=False)
    tree: ast.Module = field(repr=False)
    classes: Mapping[str, Class] = field(repr=False)
    folder: Path | None = field(repr=False, default=None)

    @property
    def alias(self) -> str:
        """The name under which a modular file imports the module."""
        return last(self.name).removeprefix("modeling_")

    def at(self, node: ast.AST) -> Location:
        """The place of `node` in the file."""
        return self.source.at(getattr(node, "lineno", 0), getattr(node, "col_offset", 0))

    @cached_property
    def functions(self) -> Mapping[str, ast.FunctionDef]:
        """The functions of the module itself."""
        return {node.name: node for node in self.tree.body if isinstance(node, ast.FunctionDef)}

    @cached_property
    def tables(self) -> Mapping[str, Mapping[str, str]]:
        """The dictionaries that map names of implementations to classes."""
        tables: dict[str, dict[str, str]] = {}
        for name, value in assigned_values(self.tree.body).items():
            if not isinstance(value, ast.Dict):
                continue
            tables[name] = {}
            for key, item in zip(value.keys, value.values, strict=True):
                path = dotted(item)
                if path in self.classes:
                    tables[name][str(constant(key))] = path
        return tables

    @property
    def methods(self) -> Iterator[tuple[Class, ast.FunctionDef]]:
        """Every method of the module, with its class."""
        for owner in self.classes.values():
            for method in owner.own.values():
                yield owner, method

    def held(self, owner: Class, *attributes: str) -> list[Class]:
        """The classes of this file that `attributes` of `owner` hold; of all if none is named."""
        names = [n for attribute in attributes or owner.attributes for n in owner.held(attribute)]
        return [self.classes[name] for name in dict.fromkeys(names) if name in self.classes]

    @cached_property
    def pretrained(self) -> tuple[Class, ...]:
        """The direct subclasses of PreTrainedModel."""
        return tuple(
            owner for owner in self.classes.values() if "PreTrainedModel" in map(last, owner.bases)
        )


def every_module(env: Environment) -> tuple[str, ...]:
    """The dotted names of all modeling modules of transformers, in order.

    Raises PatchgenError PG101 if transformers is not installed.
    """
    package = env.path("transformers")
    if package is None:
        at = Location("transformers")
        raise PatchgenError("PG101", at, "is not installed", INSTALL_TRANSFORMERS)
    files = sorted((package.parent / "models").glob("*/modeling_*.py"))
    return tuple(f"{MODELS}.{path.parent.name}.{path.stem}" for path in files)


def find_module(env: Environment, model: str) -> str:
    """The dotted name of a modeling module; `model` is its folder, its file or the dotted name.

    Case, hyphens and underscores do not count where one module alone has the name without them.
    Raises PatchgenError PG801 if there is none, or if a folder has several modules and none of the
    same name.
    """
    every = every_module(env)
    files = {name: last(name).removeprefix("modeling_") for name in every}
    spelt = model.replace("-", "_")
    letters = re.sub("[-_ ]", "", model).lower()
    exact = [name for name in every if spelt in (name, files[name])]
    by_file = [name for name in every if letters == files[name].replace("_", "")]
    by_folder = [name for name in every if letters == name.split(".")[2].replace("_", "")]
    for names in (exact or by_file, by_folder):
        if len(names) == 1:
            return names[0]
    if by_folder:
        hint = f"one of {', '.join(map(last, by_folder))}"
    else:
        hint = did_you_mean(spelt.lower(), files.values())
    what = "names no modeling module of the installed transformers"
    raise PatchgenError("PG801", Location(model), what, hint)


def open_module(env: Environment, name: str) -> Module:
    """The module with that dotted name.

    Raises PatchgenError PG101 if there is none, and any error of reading it.
    """
    path = env.path(name)
    if path is None:
        raise PatchgenError("PG101", Location(name), f"no module named {name}")
    source = read_source(path, name, "/".join(path.parts[-4:]))
    return replace(make_module(name, source), folder=path.parent)


def make_module(name: str, source: Source) -> Module:
    """The module with the text `source`."""
    nodes_inside.cache_clear()  # it keeps the trees of the module before
    tree = parse(source)
    classes: dict[str, Class] = {}
    for node in walk(tree.body, ast.ClassDef):
        bases = tuple(map(ast.unparse, node.bases))
        parents: list[Class] = []
        for base in map(last, bases):
            if base in classes:
                parents.append(classes[base])
        classes[node.name] = Class(node.name, node, bases, tuple(parents))
    parts = name.split(".")
    model = parts[2] if len(parts) > 2 else name
    return Module(model, name, source, tree, classes)
