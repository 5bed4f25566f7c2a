"""The source of an old release of transformers: where a name is defined, and what it reads."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patchgen import disk
from patchgen.author.align.file import absolute_module, imports_in
from patchgen.author.resolve import resolver_of
from patchgen.syntax.blocks import first_line
from patchgen.syntax.bound import bound_names
from patchgen.syntax.trees import names_within

PACKAGE = "transformers"


@dataclass(frozen=True)
class Module:
    """One module of a release: its text, and the statement that binds each name at its top."""

    name: str
    text: str
    is_package: bool

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @functools.cached_property
    def bindings(self) -> dict[str, ast.stmt]:
        """The last definition of a name, or else the last statement that binds it."""
        definitions = (ast.FunctionDef, ast.ClassDef)
        bindings: dict[str, ast.stmt] = {}
        for node in sorted(self.tree.body, key=lambda node: isinstance(node, definitions)):
            bindings |= dict.fromkeys(defined_by(node), node)
        return bindings

    @functools.cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """Each name that is imported anywhere, as its module and its name there."""
        return imports_in(self.tree, self._place)

    def absolute(self, node: ast.ImportFrom) -> str:
        """The module that an import names."""
        return absolute_module(node, self._place)

    @property
    def _place(self) -> str:
        """The dotted name, of which the package is what stands before the last dot."""
        return f"{self.name}." if self.is_package else self.name

    def source(self, node: ast.stmt) -> str:
        """The text of a statement, with its decorators."""
        lines = self.text.splitlines(keepends=True)
        return "".join(lines[first_line(node) - 1 : node.end_lineno])


def defined_by(node: ast.AST) -> Iterator[str]:
    """The names that a statement at the top of a module binds, imports left out."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            yield from bound_names([node])
        case ast.If() | ast.Try() | ast.With() | ast.ExceptHandler():
            for inner in ast.iter_child_nodes(node):
                yield from defined_by(inner)


class Sources:
    """The package `transformers` in the folder `root`, read as text."""

    def __init__(self, root: Path, version: str) -> None:
        self.root = root
        self.version = version
        self.module = functools.cache(self._module)

    def _module(self, name: str) -> Module | None:
        """The module `name`, or None."""
        path = self.root.joinpath(*name.split("."))
        for file, is_package in ((path.with_suffix(".py"), False), (path / "__init__.py", True)):
            if name.split(".")[0] == PACKAGE and file.is_file():
                return Module(name, disk.text_of(file), is_package)
        return None

    def find(self, module: str, name: str) -> tuple[Module, ast.stmt] | None:
        """Where `from module import name` leads: the module and the statement that binds it."""
        home, inner = resolver_of(self.root).follow(module, name)
        read = self.module(home)
        if read is None or inner not in read.bindings:
            return None
        return read, read.bindings[inner]

    def general_module(self, name: str) -> str | None:
        """The first of the general modules, which belong to no model, that defines `name`."""
        package = self.root / PACKAGE
        paths: list[Path] = []
        for folder in (package, package / "utils", package / "integrations"):
            paths += folder.glob("*.py")
        for path in sorted(paths):
            module = self.module(".".join(path.relative_to(self.root).with_suffix("").parts))
            # To parse them all takes seconds.
            if module is not None and name in module.text and name in module.bindings:
                return module.name
        return None

    def has(self, module: str, name: str) -> bool:
        """Whether `from module import name` works with this release, as far as its text says."""
        return self.find(module, name) is not None or self.module(f"{module}.{name}") is not None


def names_read(node: ast.AST) -> set[str]:
    """The names that code reads, also inside its functions; those of builtins too."""
    return {name.id for name in names_within(node) if isinstance(name.ctx, ast.Load)}


def imports_of(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    """Each import from transformers, wherever it stands."""
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return (n for n in nodes if n.level >= 2 or (n.module or "").split(".")[0] == PACKAGE)


def source_of(node: ast.ImportFrom) -> str:
    """The module an import means; `from ...utils` is one of a file inside transformers.models.X."""
    if not node.level:
        return node.module or ""
    base = {2: "transformers.models", 3: "transformers"}.get(node.level, "transformers")
    return ".".join(filter(None, [base, node.module]))
