"""A modeling module of the installed transformers, as classes, methods and attributes.

Takes the name of a model, such as `mpnet`; returns a frozen `Module`, whose classes have the
members of their bases in the same file.  The file is read: nothing of transformers is imported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from patchgen.author.anatomy.code import called, constant, last, walk
from patchgen.facts.modules import MODELS
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.syntax.locate import Environment
from patchgen.syntax.text import Source, parse, read_source

CONTAINERS = ("ModuleList", "Sequential", "ModuleDict")


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
        owner = self.owner(name)
        return owner.own[name] if owner is not None else None

    def owner(self, name: str) -> Class | None:
        """The class that defines the method `name`: this one or a base."""
        if name in self.own:
            return self
        for parent in self.parents:
            found = parent.owner(name)
            if found is not None:
                return found
        return None

    @cached_property
    def attributes(self) -> Mapping[str, tuple[ast.expr, ...]]:
        """The values that any method assigns to `self.NAME`."""
        found: dict[str, list[ast.expr]] = {}
        for parent in reversed(self.parents):
            for name, values in parent.attributes.items():
                found.setdefault(name, []).extend(values)
        for method in self.own.values():
            for name, value in _set(method):
                found.setdefault(name, []).append(value)
        return {name: tuple(values) for name, values in found.items()}

    @cached_property
    def settings(self) -> Mapping[str, ast.expr]:
        """The attributes that the body of the class or of a base sets."""
        found: dict[str, ast.expr] = {}
        for parent in reversed(self.parents):
            found |= parent.settings
        for node in self.node.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    found[name] = value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    found[name] = value
        return found

    def makes(self, attribute: str) -> tuple[str, ...]:
        """The names that are called to create `self.ATTRIBUTE` or the items of its lists."""
        found: list[str] = []
        for value in self.attributes.get(attribute, ()):
            found += [last(called(call)) for call in constructors(value)]
        return tuple(found)

    def descends(self, base: str) -> bool:
        """Whether `base`, by its last name, is an ancestor as far as this file shows."""
        if any(last(own) == base for own in self.bases):
            return True
        return any(parent.descends(base) for parent in self.parents)


def constructors(value: ast.expr) -> Iterator[ast.Call]:
    """The calls that may create `value`: both branches of a conditional, and the items of lists."""
    match value:
        case ast.IfExp(body=body, orelse=orelse):
            yield from constructors(body)
            yield from constructors(orelse)
        case ast.Call(args=args) if last(called(value)) in CONTAINERS:
            for item in args:
                yield from constructors(item)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            for item in items:
                yield from constructors(item)
        case ast.Dict(values=items):
            for item in items:
                yield from constructors(item)
        case ast.ListComp(elt=item) | ast.GeneratorExp(elt=item) | ast.Starred(value=item):
            yield from constructors(item)
        case ast.Call():
            yield value


def _set(method: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    for node in walk(method.body, ast.stmt):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        for target in targets:
            match target, value:
                case ast.Attribute(value=ast.Name(id="self"), attr=name), ast.expr() as made:
                    yield name, made
                case ast.Tuple(elts=places), ast.Tuple(elts=values) if len(places) == len(values):
                    yield from (
                        (place.attr, one)
                        for place, one in zip(places, values, strict=True)
                        if isinstance(place, ast.Attribute)
                    )


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
        found: dict[str, dict[str, str]] = {}
        for node in self.tree.body:
            match node:
                case ast.Assign(
                    targets=[ast.Name(id=table)], value=ast.Dict(keys=keys, values=values)
                ):
                    for key, value in zip(keys, values, strict=True):
                        if isinstance(value, ast.Name) and value.id in self.classes:
                            found.setdefault(table, {})[str(constant(key))] = value.id
        return found

    @cached_property
    def imports(self) -> Mapping[str, str]:
        """What the module imports: the name that is bound, and its full dotted name."""
        found: dict[str, str] = {}
        for node in walk(self.tree.body, ast.stmt):
            match node:
                case ast.Import(names=aliases):
                    found |= {a.asname or a.name.partition(".")[0]: a.name for a in aliases}
                case ast.ImportFrom(module=module, names=aliases, level=level):
                    found |= {
                        a.asname or a.name: f"{'.' * level}{module or ''}.{a.name}" for a in aliases
                    }
        return found

    @cached_property
    def pretrained(self) -> tuple[Class, ...]:
        """The direct subclasses of PreTrainedModel."""
        return tuple(
            one for one in self.classes.values() if "PreTrainedModel" in map(last, one.bases)
        )


def models_folder(env: Environment) -> Path:
    """The folder of transformers' models.

    Raises PatchgenError PG101 if transformers is not installed.
    """
    package = env.path("transformers")
    if package is None:
        raise PatchgenError(
            "PG101",
            Location("transformers"),
            "is not installed",
            "pip install --no-deps transformers: its files are read, never imported",
        )
    return package.parent / "models"


def every_module(env: Environment) -> tuple[str, ...]:
    """The dotted names of all modeling modules of transformers, in order."""
    folder = models_folder(env)
    files = sorted(folder.glob("*/modeling_*.py"))
    return tuple(f"{MODELS}.{path.parent.name}.{path.stem}" for path in files)


def find_module(env: Environment, model: str) -> str:
    """The dotted name of a modeling module; `model` is its folder, its file or the dotted name.

    Case, hyphens and underscores do not count where one module alone has the name without them.
    Raises PatchgenError PG801 if there is none, or if a folder has several modules and none of the
    same name.
    """
    every = every_module(env)
    files = {name: last(name).removeprefix("modeling_") for name in every}
    inside: list[str] = []
    for spelt in (lambda name: name, _letters):
        wanted = spelt(model.replace("-", "_"))
        exact = [name for name in every if wanted in (spelt(name), spelt(files[name]))]
        inside = inside or [name for name in every if spelt(name.split(".")[2]) == wanted]
        if len(exact) == 1 or len(inside) == 1:
            return (exact or inside)[0]
    if inside:
        hint = f"one of {', '.join(last(name) for name in inside)}"
    else:
        hint = did_you_mean(model.replace("-", "_").lower(), files.values())
    raise PatchgenError(
        "PG801", Location(model), "names no modeling module of the installed transformers", hint
    )


def _letters(name: str) -> str:
    return name.replace("_", "").replace("-", "").replace(" ", "").lower()


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
    tree = parse(source)
    classes: dict[str, Class] = {}
    for node in walk(tree.body, ast.ClassDef):
        bases = tuple(ast.unparse(base) for base in node.bases)
        parents = tuple(classes[last(base)] for base in bases if last(base) in classes)
        classes[node.name] = Class(node.name, node, bases, parents)
    parts = name.split(".")
    return Module(parts[2] if len(parts) > 2 else name, name, source, tree, classes)
