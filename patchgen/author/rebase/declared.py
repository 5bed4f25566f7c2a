"""The changes of a modular file: edits, overrides and removals, each with its parent.

class LlamaMLP(llama.LlamaMLP):          transformers.models.llama.modeling_llama.LlamaMLP:
    @edit("forward")                     an edit of `forward`,
    def clamp(self, gate): ...
    def extra_repr(self): ...            an override of `extra_repr`, if the parent has one
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from patchgen.author.align.file import File, absolute_module, member_names
from patchgen.syntax.same import Function

Kind = Literal["edit", "override", "attribute"]


@dataclass(frozen=True, eq=False)
class Declared:
    """A member of a class of the modular file that changes `member` of its parent `module.parent`.

    `nodes` are its statements: all edits of one method belong together.  A function at the top
    level has no `owner`.  `is_whole`: the class is written out, and takes the place of the
    parent's.
    """

    owner: str
    member: str
    kind: Kind
    nodes: tuple[ast.stmt, ...]
    module: str
    parent: str
    is_whole: bool = False

    @property
    def name(self) -> str:
        """The member with its class."""
        return f"{self.owner}.{self.member}" if self.owner else self.member


def declared_changes(modular: File) -> Iterator[Declared]:
    """Every edit, and every member that may override one of the parent's, in order.

    A function or class without a parent takes the place of the one of its name, if there is one.
    """
    parents = {name: _parent(modular, d.node) for name, d in modular.definitions.items()}
    modules = [parent[0] for parent in parents.values() if parent is not None]
    for name, parent in parents.items() if modules else ():
        node = modular.definitions[name].node
        module, base = parent or (max(modules, key=modules.count), name)
        if isinstance(node, Function):
            yield Declared("", name, "override", (node,), module, "", is_whole=True)
        elif isinstance(node, ast.ClassDef):
            for (member, kind), nodes in _members(modular, node).items():
                yield Declared(name, member, kind, tuple(nodes), module, base, parent is None)


def _parent(modular: File, node: ast.stmt) -> tuple[str, str] | None:
    """The class of transformers that a class derives from."""
    for base in node.bases if isinstance(node, ast.ClassDef) else ():
        parent = resolve(modular, base)
        if parent is not None and parent[0].startswith("transformers.models."):
            return parent
    return None


def resolve(file: File, node: ast.expr) -> tuple[str, str] | None:
    """The module and the name that a plain expression means by the imports of a file."""
    match node:
        case ast.Name(id=name):
            entry = file.imports.get(name)
            if entry is not None and isinstance(entry[0], ast.ImportFrom):
                return absolute_module(entry[0], file.source.module), entry[1].name
            return None
        case ast.Attribute(value=ast.Name(id=alias), attr=name) if alias in file.imports:
            statement, imported = file.imports[alias]
            if isinstance(statement, ast.ImportFrom):
                return f"{absolute_module(statement, file.source.module)}.{imported.name}", name
            return imported.name, name
        case _:
            return None


def _members(modular: File, node: ast.ClassDef) -> dict[tuple[str, Kind], list[ast.stmt]]:
    """The statements of each change of a class, by its member and kind."""
    found: dict[tuple[str, Kind], list[ast.stmt]] = {}
    for member in node.body:
        target = edited_method(modular, member)
        kind: Kind = "override" if isinstance(member, Function) else "attribute"
        for name in [target] if target is not None else member_names(member):
            found.setdefault((name, "edit" if target is not None else kind), []).append(member)
    return found


def edited_method(modular: File, node: ast.stmt) -> str | None:
    """The method that a function decorated with `@edit("method")` edits; None for anything else."""
    if not isinstance(node, Function):
        return None
    for decorator in node.decorator_list:
        match decorator:
            case ast.Call(func=func, args=[ast.Constant(value=str(method))]):
                if resolve(modular, func) == ("patchgen.edits", "edit"):
                    return method
    return None
