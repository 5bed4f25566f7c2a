"""What names mean in one release: the compiler's answer, for rebase, adopt and patch files.

transformers.LlamaModel                     the class of `modeling_llama`, by the package's own
from transformers import LlamaModel as M    lists of what it has (`_import_structure`, `__all__`)
"""

from __future__ import annotations

import ast
import contextlib
import functools
from pathlib import Path

from patchgen.author.align.file import File
from patchgen.compiler.emit.release import explain_missing
from patchgen.compiler.plan.bindings import Bindings, Everywhere
from patchgen.compiler.plan.declare import list_parents
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.blocks import ModuleIndex, index
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.locate import Environment, make_environment


class _Read(Everywhere):
    """Carries nothing: that an import may fail, as in the lists of packages up to 4.46, is none."""

    def flattens(self, module: str) -> bool:
        """Never."""
        return False


class Resolver:
    """Answers for one release, in whose `environment` modules are found."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self._bindings = Bindings(environment, _Read(""))
        self._indexes: dict[str, ModuleIndex] = {}

    def meaning(self, file: File, node: ast.expr) -> tuple[str, str] | None:
        """The module and the name that a dotted name of `file` means; "" for a module itself."""
        with contextlib.suppress(PatchgenError):
            found = self._bindings.dotted(self._index(file), ast.unparse(node), Location(""))
            if found is not None:
                return found.module, found.name
        return None

    def follow(self, module: str, name: str) -> tuple[str, str]:
        """Where a name of a module comes from, re-exports followed."""
        with contextlib.suppress(PatchgenError):
            found = self._bindings.canonical(Symbol(module, name), Location(module))
            return found.module, found.name
        return module, name

    def locate(self, path: str) -> tuple[str, tuple[str, ...]]:
        """The module in which a dotted name ends, and the names in it: a class and its method."""
        module, *names = path.split(".")
        while names:
            home, name = self.follow(module, names[0])
            if name:
                return home, (name, *names[1:])
            module = home
            names = names[1:]
        return module, ()

    def replaced_in(self, modular: File, name: str) -> str:
        """The model's module whose `name` a modular file without parents replaces, or ""."""
        flattened = Bindings(self.environment, Everywhere(""))
        with contextlib.suppress(PatchgenError):
            for module, theirs in list_parents(self._index(modular), flattened).items():
                if theirs.definition(name) is not None:
                    return module
        return ""

    def lacks(self, module: str, name: str) -> bool:
        """Whether the release surely has no such name in such a module."""
        return explain_missing(module, name, self.environment) is not None

    def _index(self, file: File) -> ModuleIndex:
        text = file.source.text
        if text not in self._indexes:
            self._indexes[text] = index(file.source)
        return self._indexes[text]


@functools.lru_cache(maxsize=8)  # adopt tries a file on several releases, again and again
def resolver_of(root: Path) -> Resolver:
    """The resolver of the release in the folder `root`."""
    return Resolver(make_environment(root, root, (), ()))


def lacking_imports(file: File, root: Path) -> list[str]:
    """The names that a file imports from transformers and the release lacks.

    For example `transformers.utils.is_x_available`.
    """
    resolver = resolver_of(root)
    lacking = []
    for node in file.tree.body:
        if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
            continue
        if node.module.split(".")[0] == "transformers":
            names = [alias.name for alias in node.names]
            lacking += [f"{node.module}.{n}" for n in names if resolver.lacks(node.module, n)]
    return lacking
