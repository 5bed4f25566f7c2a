"""A modeling module of the installed transformers as classes, methods and attributes; nothing is imported.

In: a model's name (`mpnet`), located as a file.  Out: a frozen `Module`, whose classes have the members of their bases
in the same file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from patchgen.author.anatomy.code import called, last, walk
from patchgen.errors import Location, PatchgenError, did_you_mean
from patchgen.syntax.locate import Environment
from patchgen.syntax.text import Source, parse, read_source

MODELS = "transformers.models"


@dataclass(frozen=True, eq=False)
class Class:
    """A class statement; members are looked up along the bases of the same file, whose functions are `functions`."""

    name: str
    node: ast.ClassDef
    bases: tuple[str, ...]
    parents: tuple[Class, ...] = field(repr=False, default=())
    functions: Mapping[str, ast.FunctionDef] = field(repr=False, default_factory=dict)

    @cached_property
    def own(self) -> Mapping[str, ast.FunctionDef]:
        """The methods that the class itself defines, a later definition in place of an earlier one."""
        return {node.name: node for node in self.node.body if isinstance(node, ast.FunctionDef)}

    def method(self, name: str) -> ast.FunctionDef | None:
        """The method `name`, the bases' included."""
        found = self.own.get(name)
        return found or next((m for parent in self.parents if (m := parent.method(name))), None)

    def owner(self, name: str) -> Class | None:
        """The class whose method `name` is."""
        if name in self.own:
            return self
        return next((found for parent in self.parents if (found := parent.owner(name))), None)

    @cached_property
    def attributes(self) -> Mapping[str, tuple[ast.expr, ...]]:
        """What `self.NAME` is set to, in whichever method."""
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
        """The attributes that the class body sets, the bases' included."""
        found = {
            name: value
            for parent in reversed(self.parents)
            for name, value in parent.settings.items()
        }
        for node in self.node.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    found[name] = value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    found[name] = value
        return found

    def makes(self, attribute: str) -> tuple[str, ...]:
        """The names that are called to make `self.ATTRIBUTE`, the branches of a conditional and members of lists."""
        return tuple(
            last(called(call))
            for value in self.attributes.get(attribute, ())
            for call in constructors(value)
        )

    def descends(self, base: str) -> bool:
        """Whether `base`, by its last name, is an ancestor as far as this file shows."""
        return any(last(b) == base for b in self.bases) or any(
            parent.descends(base) for parent in self.parents
        )


def constructors(value: ast.expr) -> Iterator[ast.Call]:
    """The calls that may make `value`: both branches of a conditional, what lists hold, what Sequential chains."""
    match value:
        case ast.IfExp(body=body, orelse=orelse):
            yield from constructors(body)
            yield from constructors(orelse)
        case ast.Call(args=args) if last(called(value)) in (
            "ModuleList",
            "Sequential",
            "ModuleDict",
        ):
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
    """A modeling file: `model` is its folder's name, `name` its dotted module name.

    `folder` is where configurations stand beside it, None for a text that is in no folder.
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
        """The dictionaries of classes by name, out of which an implementation is picked."""
        found: dict[str, dict[str, str]] = {}
        for node in self.tree.body:
            match node:
                case ast.Assign(
                    targets=[ast.Name(id=name)], value=ast.Dict(keys=keys, values=values)
                ):
                    classes = {
                        key.value: value.id
                        for key, value in zip(keys, values, strict=True)
                        if isinstance(key, ast.Constant) and isinstance(key.value, str)
                        if isinstance(value, ast.Name) and value.id in self.classes
                    }
                    if classes:
                        found[name] = classes
        return found

    @cached_property
    def imports(self) -> Mapping[str, str]:
        """What the module's top level imports: the name that is bound, and the dotted name of what it is."""
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
        """The classes that stand below PreTrainedModel itself."""
        return tuple(
            c for c in self.classes.values() if any(last(b) == "PreTrainedModel" for b in c.bases)
        )


def models_folder(env: Environment) -> Path:
    """The folder of transformers' models.

    Raises PatchgenError PG101 where transformers is not installed.
    """
    package = env.path("transformers")
    if package is None:
        raise PatchgenError(
            "PG101", Location(""), "no module named transformers", "install transformers"
        )
    return package.parent / "models"


def every_module(env: Environment) -> tuple[str, ...]:
    """The dotted names of all modeling modules of transformers, in order."""
    folder = models_folder(env)
    files = sorted(folder.glob("*/modeling_*.py"))
    return tuple(f"{MODELS}.{path.parent.name}.{path.stem}" for path in files)


def find_module(env: Environment, model: str) -> str:
    """The dotted name of the modeling module that `model` names: its folder, its file, or the whole dotted name.

    Raises PatchgenError PG801 where there is none, or where a folder has several and none of its own name.
    """
    every = every_module(env)
    wanted = model.replace("-", "_")
    exact = [name for name in every if name == wanted or last(name) == f"modeling_{wanted}"]
    if exact:
        return exact[0]
    inside = [name for name in every if name.split(".")[2] == wanted]
    if len(inside) == 1:
        return inside[0]
    files = [last(name).removeprefix("modeling_") for name in every]
    hint = (
        f"one of {', '.join(last(name) for name in inside)}"
        if inside
        else did_you_mean(wanted, files)
    )
    raise PatchgenError(
        "PG801", Location(model), "names no modeling module of the installed transformers", hint
    )


def open_module(env: Environment, name: str) -> Module:
    """The module of that dotted name.

    Raises PatchgenError PG101 where there is none, and what reading it raises.
    """
    path = env.path(name)
    if path is None:
        raise PatchgenError("PG101", Location(name), f"no module named {name}")
    source = read_source(path, name, "/".join(path.parts[-4:]))
    return replace(make_module(name, source), folder=path.parent)


def make_module(name: str, source: Source) -> Module:
    """`source` taken apart."""
    tree = parse(source)
    classes: dict[str, Class] = {}
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in walk(tree.body, ast.ClassDef):
        bases = tuple(ast.unparse(base) for base in node.bases)
        parents = tuple(classes[last(base)] for base in bases if last(base) in classes)
        classes[node.name] = Class(node.name, node, bases, parents, functions)
    parts = name.split(".")
    return Module(parts[2] if len(parts) > 2 else name, name, source, tree, classes)
