"""Find where a dotted module name lies on disk, without importing anything.

`importlib.util.find_spec("a.b.c")` runs `a/__init__.py`, which for transformers takes a second and
can fail, so modules are located as files.

The compiler sees the file system through an `Environment` only: by `look`, whose answers are texts,
and by `source`.  A subclass that overrides these two knows everything that a result depends on.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen import disk
from patchgen.syntax.errors import Location, PatchgenError, did_you_mean

if TYPE_CHECKING:
    from patchgen.syntax.blocks import ModuleIndex
    from patchgen.syntax.text import Source

# Stands for a dot in the name of a folder, as module names are split at dots.  No import can spell
# it.
_DOT = "\u2024"
# Without what it needs to be imported, which is much.
INSTALL_TRANSFORMERS = "pip install --no-deps transformers  # its files are read, never imported"


@dataclass(frozen=True)
class Environment:
    """The folders in which modules are looked up, in order, and what has been read from them.

    `home` is the project: paths below it are shown relative to it.  `archives` are zip files that
    Python reads and patchgen does not.  The dictionaries are caches: they hold what reading the
    same files again would give.
    """

    roots: tuple[Path, ...]
    home: Path
    allow_bidi: bool = False
    archives: tuple[Path, ...] = ()
    _answers: dict[tuple[str, str], str] = field(default_factory=dict, repr=False, compare=False)
    _sources: dict[str, Source] = field(default_factory=dict, repr=False, compare=False)
    _indexes: dict[str, ModuleIndex] = field(default_factory=dict, repr=False, compare=False)
    _paths: dict[str, Path] = field(default_factory=dict, repr=False, compare=False)
    _holders: dict[tuple[str, str], tuple[Path, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def look(self, question: str, subject: str) -> str:
        """The answer to a question about the file system.

        "module" asks for the file of a module, "held" whether the project has a top-level package,
        "file" and "folder" whether there is one at a path, "names" for the names in a folder, in
        lines, and "star" whether `from module import *` may bring a name, where the subject is
        "name module".  The empty text stands for no.
        """
        key = question, subject
        if key not in self._answers:
            # Only these questions depend on the roots; the others are about one path.
            if question == "module":
                self._answers[key] = self._find(subject)
            elif question == "star":
                self._answers[key] = "may" if self._may_bring(subject) else ""
            elif question == "held":
                self._answers[key] = "yes" if self._holds(subject) else ""
            else:
                self._answers[key] = _answer(question, subject)
        return self._answers[key]

    def path(self, module: str) -> Path | None:
        """The file of `module`, or None when no root has it."""
        package = module.rpartition(".")[0]
        # A definition is asked for as if it might be a module.  Nothing is below a plain one.
        above = self.look("module", package) if package else ""
        if above and os.path.basename(above) != "__init__.py":
            return None
        found = self.look("module", module)
        if not found:
            return None
        # To take a path apart takes longer than to look it up.
        if found not in self._paths:
            self._paths[found] = Path(found)
        return self._paths[found]

    def source(self, module: str, at: Location) -> Source:
        """The text of `module`, which `at` asks for.

        Raises PatchgenError PG101 at `at` when there is no such module, and what reading it raises.
        """
        path = self.path(module)
        if path is None:
            what = f"no module named {display_module(module)}"
            raise PatchgenError("PG101", at, what, self._describe_nearest(module))
        if module not in self._sources:
            # Imported here: a run that finds all its results in the cache reads no text.
            from patchgen.syntax.text import read_source

            # Relative to its root: an environment may lie inside the project, or anywhere else.
            depth = module.count(".") + (2 if path.name == "__init__.py" else 1)
            display_path = "/".join(path.parts[-depth:])
            self._sources[module] = read_source(
                path, module, display_path, allow_bidi=self.allow_bidi
            )
        return self._sources[module]

    def index(self, module: str, at: Location) -> ModuleIndex:
        """The blocks of `module`, which `at` asks for; raises what `source` and parsing raise."""
        # Asked each time, so that a subclass can record what is read.
        source = self.source(module, at)
        if module not in self._indexes:
            from patchgen.syntax.blocks import index

            self._indexes[module] = index(source)
        return self._indexes[module]

    def spells(self, module: str, word: str) -> bool:
        """Whether `word` may stand in the text of `module`; true for a text that cannot be read."""
        try:
            return word in self.source(module, Location(module)).text
        except PatchgenError:
            return True

    def display_path(self, path: Path) -> str:
        """`path` as messages print it: relative to the project or to its root, with `/`."""
        # The project first: an environment may lie inside it, or the other way round.
        for root in (self.home, *self.roots):
            if path.is_relative_to(root):
                return path.relative_to(root).as_posix()
        return path.as_posix()

    def is_package(self, module: str) -> bool:
        """Whether `module` is a package, so that relative imports count from itself."""
        path = self.path(module)
        return path is not None and path.name == "__init__.py"

    def module_of(self, path: Path) -> str:
        """The dotted name of the file at `path`, as seen from the first root that holds it.

        Folders have their own names in it, also where no import statement could spell them, such as
        `my-var`.
        """
        package = path.parent
        while self.look("file", str(package / "__init__.py")):
            package = package.parent
        # The innermost root gives the shortest name.
        holders = list(filter(path.is_relative_to, (self.home, *self.roots)))
        nearest = max(holders, key=lambda root: len(root.parts), default=package)
        # A package that begins above what is looked through cannot be found by its whole name.
        top = package if not holders or package in self.roots else nearest
        within = path.with_suffix("").relative_to(top)
        parts = [part.replace(".", _DOT) for part in within.parts]
        # `a/__init__.py` is the module `a`.
        if parts[-1] == "__init__":
            parts.pop()
        return ".".join(parts)

    def beside(self, module: str) -> str | None:
        """The package of a top-level `module` for relative imports: its folder; None elsewhere."""
        path = self.path(module)
        if path is None or "." in module or path.parent not in self.roots:
            return None
        # No package has a name for this folder, so its number among the roots stands for it.
        return f"{_DOT}{self.roots.index(path.parent)}"

    def holds(self, package: str) -> bool:
        """Whether the top-level `package` is in the project's folder or in its `src`."""
        return bool(self.look("held", package))

    def _find(self, module: str) -> str:
        """The file of `module` in the first root that has it or its package; "" if it has none."""
        parts = [part.replace(_DOT, ".") for part in _split(module)]
        # A name from outside must not lead out of the roots: `a./etc/passwd`.
        if not parts or not all(map(_is_name, parts)):
            return ""
        for root in self._holders_of(module, parts):
            # A package hides a module of the same name, as in Python.
            base = os.path.join(root, *parts)
            for candidate in (f"{base}{os.sep}__init__.py", f"{base}.py"):
                if os.path.isfile(candidate):
                    return candidate
            # As in Python, the first package of a name has all modules of that name: what a release
            # lacks must not be taken from the one that is installed.
            if len(parts) > 1 and os.path.isfile(os.path.join(root, parts[0], "__init__.py")):
                return ""
        return ""

    def _holds(self, package: str) -> bool:
        """The answer to "held"."""
        paths = [self.home / package, self.home / "src" / package]
        return any(path.is_dir() or path.with_name(f"{package}.py").is_file() for path in paths)

    def _may_bring(self, subject: str) -> bool:
        """Whether a star import may bring a name: a file of the module, or below it, exports it.

        It then spells the name, and in quotes where a statement sets `__all__`.
        """
        word, _, module = subject.encode().partition(b" ")
        path = Environment.look(self, "module", module.decode())
        files = [path]
        if os.path.basename(path) == "__init__.py":
            files = []
            for top, _, names in os.walk(os.path.dirname(path)):
                files += [os.path.join(top, name) for name in names]
        for file in files:
            if not file.endswith(".py"):
                continue
            try:
                data = disk.read_bytes(file)
            except OSError:
                return True  # whoever reads it says why not
            if word in data:
                end = rb"\b"
                before = rb"\W?"
                if b"\n__all__" in data:
                    end = before = rb"[\"']"
                # A pattern that begins with a word is looked for ten times faster.
                for match in re.finditer(word + end, data):
                    if re.fullmatch(before, data[max(match.start() - 1, 0) : match.start()]):
                        return True
        return False

    def _holders_of(self, module: str, parts: Sequence[str]) -> tuple[Path, ...]:
        """The roots that can have `module`; `parts` are its names below them."""
        roots = self._roots_of(module)
        if len(parts) == 1:
            return roots
        # Most roots lack the folder of a package: they are asked once for all of its modules.
        folder = parts[0]
        key = module.partition(".")[0], folder
        if key not in self._holders:
            held = [root for root in roots if os.path.isdir(os.path.join(root, folder))]
            self._holders[key] = tuple(held)
        return self._holders[key]

    def _roots_of(self, module: str) -> tuple[Path, ...]:
        """The folders in which `module` can lie: one, where its name says which."""
        if not is_beside(module):
            return self.roots
        number = int(module.partition(".")[0].removeprefix(_DOT))
        # A slice, as the number may be of another environment with more roots.
        return self.roots[number : number + 1]

    def _describe_nearest(self, module: str) -> str:
        """A hint for a misspelt module: the first part that does not exist, and its neighbours."""
        roots = self._roots_of(module)
        folders = [str(root) for root in roots if self.look("folder", str(root))]
        parents: list[str] = []
        missing, *rest = _split(module)
        # Descend as far as folders exist; the next part is the misspelt one.
        while rest:
            inner = [os.path.join(folder, missing) for folder in folders]
            deeper = [folder for folder in inner if self.look("folder", folder)]
            if not deeper:
                break
            folders = deeper
            parents.append(missing)
            missing, *rest = rest
        if not parents and not is_beside(module):
            # Not even the package is there: it is not installed, or lies elsewhere.
            searched = ", ".join(folders) or "no folder"
            is_transformers = module.partition(".")[0] == "transformers"
            what = INSTALL_TRANSFORMERS if is_transformers else "install it or name its root"
            says = f"searched in {searched}; {what}"
            archives = ", ".join(map(str, self.archives))
            return f"{says}; zip and egg files are not read: {archives}" if archives else says
        place = ".".join(parents) or f"the folder {roots[0].name}"
        names: list[str] = []
        for folder in folders:
            listed = self.look("names", folder)
            # An empty folder answers with the empty text.
            if listed:
                names += listed.split("\n")
        # It has the name, but is a pipe, or a link to nowhere.
        if missing in names:
            return f"what {place} has of the name {missing} is no file that can be read"
        near = did_you_mean(missing, names)
        says = f"{place} has no {missing}"
        return f"{says}; {near}" if near else says


def is_beside(module: str) -> bool:
    """Whether `module` has a name that `Environment.beside` makes, for relative imports."""
    return module.startswith(_DOT) and module.removeprefix(_DOT).partition(".")[0].isdecimal()


def _split(module: str) -> list[str]:
    """The parts of `module` below its root, which `Environment.beside` puts in front."""
    parts = module.split(".")
    return parts[1:] if is_beside(module) else parts


def display_module(module: str) -> str:
    """`module` as code spells it: `.helpers` for one beside a top-level file."""
    return f".{module.partition('.')[2]}" if is_beside(module) else module


def _is_name(part: str) -> bool:
    """Whether a folder or a file can be called so: nothing that leads elsewhere."""
    if part.isidentifier():
        return True
    return part not in ("", ".", "..") and not {"/", "\0", os.sep} & set(part)


def _answer(question: str, subject: str) -> str:
    """The answer about one path; the empty text stands for no."""
    match question:
        case "file":
            return "yes" if os.path.isfile(subject) else ""
        case "folder":
            return "yes" if os.path.isdir(subject) else ""
    names: set[str] = set()
    try:
        with os.scandir(subject) as entries:
            for entry in entries:
                if entry.name.endswith(".py") or entry.is_dir():
                    names.add(entry.name.removesuffix(".py"))
    # No folder, or one that may not be read: there is nothing to suggest from it.
    except OSError:
        return ""
    return "\n".join(sorted(names))


def make_environment(
    home: Path,
    package_root: Path | None = None,
    roots: Iterable[Path] = (),
    search: Iterable[str] | None = None,
) -> Environment:
    """An environment that looks in `package_root`, `home`, `roots`, then in `search`.

    `search` is `search_path()` by default.
    """
    every: list[Path] = []
    if package_root is not None:
        every.append(package_root)
    every += [home, *roots]
    if search is None:
        search = search_path()
    # The empty entry of `sys.path` is the current folder.
    every += [Path(entry or ".") for entry in search]
    folders = dict.fromkeys(folder.resolve() for folder in every if folder.is_dir())
    # A file on the search path is a zip or an egg.
    archives = dict.fromkeys(path.resolve() for path in every if path.is_file())
    return Environment(tuple(folders), home.resolve(), archives=tuple(archives))


def search_path() -> list[str]:
    """`sys.path` without what Python added for the way it was started, and with patchgen itself.

    `python -m` adds the current folder and `python FILE` that of the file: the outputs of a modular
    file must depend on neither.
    """
    own = str(Path(__file__).parents[2])
    started_in = {"", os.getcwd(), os.path.dirname(os.path.abspath(sys.argv[0] or "."))}
    entries = list(sys.path)
    # With `-P`, Python has added nothing, and the first entry is somebody's choice.
    if entries and entries[0] in started_in and not sys.flags.safe_path:
        entries = entries[1:]
    return [*filter(None, entries), own]
