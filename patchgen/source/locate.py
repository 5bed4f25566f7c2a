"""Where a dotted module name lies on disk, and the facts about it; nothing is imported.

`importlib.util.find_spec("a.b.c")` runs `a/__init__.py`, which for transformers costs a second and can fail, so only
folders and files are looked at here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen.errors import Location, PatchgenError, did_you_mean

if TYPE_CHECKING:
    from patchgen.source.blocks import ModuleIndex


@dataclass(frozen=True)
class Environment:
    """The folders in which modules are looked for, first one first, and what has been read from them.

    `home` is the project: paths below it are shown relative to it.  The two dictionaries are memory, not state: they
    hold what a fresh look at the same files would give.
    """

    roots: tuple[Path, ...]
    home: Path
    allow_bidi: bool = False
    _paths: dict[str, Path | None] = field(default_factory=dict, repr=False, compare=False)
    _indexes: dict[str, ModuleIndex] = field(default_factory=dict, repr=False, compare=False)

    def path(self, module: str) -> Path | None:
        """The file of `module`, or None when no root has it."""
        if module not in self._paths:
            self._paths[module] = self._find(module)
        return self._paths[module]

    def index(self, module: str, at: Location) -> ModuleIndex:
        """The blocks of `module`, which `at` asks for.

        Raises PatchgenError PG101 at `at` when there is no such module, and what reading it raises.
        """
        path = self.path(module)
        if path is None:
            raise PatchgenError("PG101", at, f"no module named {module}", self._nearest(module))
        if module not in self._indexes:
            # Imported here: who finds everything in the cache only asks where modules lie.
            from patchgen.source.blocks import index
            from patchgen.source.text import read_source

            # Relative to its root: an environment may lie inside the project, or anywhere else.
            depth = module.count(".") + (2 if path.name == "__init__.py" else 1)
            shown = "/".join(path.parts[-depth:])
            source = read_source(path, module, shown, allow_bidi=self.allow_bidi)
            self._indexes[module] = index(source)
        return self._indexes[module]

    def shown(self, path: Path) -> str:
        """`path` as messages and generated files print it: relative to the project or to its root, with `/`."""
        for root in (self.home, *self.roots):
            if path.is_relative_to(root):
                return path.relative_to(root).as_posix()
        return path.as_posix()

    def is_package(self, module: str) -> bool:
        """Whether `module` is a package, so that relative imports count from itself."""
        path = self.path(module)
        return path is not None and path.name == "__init__.py"

    def module_of(self, path: Path) -> str:
        """The dotted name of the file at `path`, as seen from the first root that holds it."""
        package = path.parent
        while (package / "__init__.py").is_file():
            package = package.parent
        holders = [root for root in (self.home, *self.roots) if path.is_relative_to(root)]
        nearest = max(holders, key=lambda root: len(root.parts), default=package)
        top = min((package, nearest), key=lambda folder: len(folder.parts))
        parts = path.with_suffix("").relative_to(top).parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def _find(self, module: str) -> Path | None:
        parts = module.split(".")
        if not all(part.isidentifier() for part in parts):
            return None
        for root in self.roots:
            base = root.joinpath(*parts)
            for candidate in (base / "__init__.py", base.with_name(f"{base.name}.py")):
                if candidate.is_file():
                    return candidate
        return None

    def _nearest(self, module: str) -> str:
        """A hint for a misspelt module: the first part that does not exist, and what lies beside it."""
        known, rest = "", module.split(".")
        folders = [root for root in self.roots if root.is_dir()]
        while rest:
            deeper = [f / rest[0] for f in folders if (f / rest[0]).is_dir()]
            if not deeper or len(rest) == 1:
                break
            folders, known = deeper, f"{known}{rest.pop(0)}."
        if not known:
            return (
                f"searched in {', '.join(self.shown(f) for f in folders) or 'no folder'}; install it or name its root"
            )
        near = did_you_mean(rest[0], _module_names(folders))
        return f"{known.rstrip('.')} has no {rest[0]}{'; ' + near if near else ''}"


def _module_names(folders: Iterable[Path]) -> set[str]:
    return {entry.stem for folder in folders for entry in folder.iterdir() if entry.is_dir() or entry.suffix == ".py"}


def make_environment(
    home: Path, package_root: Path | None = None, roots: Iterable[Path] = (), search: Iterable[str] | None = None
) -> Environment:
    """An environment that looks in `package_root`, `home`, `roots`, then in `search` (by default `sys.path`)."""
    every = [*([package_root] if package_root else []), home, *roots]
    every += [Path(entry or ".") for entry in (sys.path if search is None else search)]
    folders = dict.fromkeys(folder.resolve() for folder in every if folder.is_dir())
    return Environment(tuple(folders), home.resolve())
