"""Find the modular files of a run, and the folders of their outputs.

In: a configuration and the paths of the command line.  Out: sorted `Modular`s, and a problem for
every path that leads to none.  Only folders are read.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen import disk
from patchgen.project.config import FILE, TABLE, Config
from patchgen.syntax.errors import Location, PatchgenError, Problem, did_you_mean
from patchgen.syntax.locate import Environment, make_environment
from patchgen.syntax.shown import printable_line, refuse_unseen

MODULAR = re.compile(r"modular_(\w+)\.py")
_LOOKS_MODULAR = re.compile(r"modular_.*\.py", re.DOTALL)
# The rules for modular files inside transformers, for others, and for both when they are linted.
TRANSFORMERS, STRICT = "transformers", "strict"
LINT = "lint"
CHAINED = frozenset({TRANSFORMERS})  # outputs are parents of other files of the profile
Resolve = Callable[[Path], Path]  # `Path.resolve`, or what `resolver` gives
# Folders that hold no files of the project itself.
SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})


def is_below(path: Path, root: Path) -> bool:
    """Whether `path` is `root` or below it; ten times as fast as `Path.is_relative_to`."""
    top = root.parts
    return path.parts[: len(top)] == top


def _is_package(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "__init__.py"))


@dataclass(frozen=True, slots=True)
class Project:
    """A configuration with the options of the command line; all paths are absolute and resolved.

    `out` is the one folder for all outputs; `package_root` is where parents are looked for first.
    `release` is that of transformers from which all parents have to be, or "installed"; None leaves
    it to the project.
    """

    config: Config
    out: Path | None = None
    package_root: Path | None = None
    allow_bidi: bool = False
    release: str | None = None

    @property
    def home(self) -> Path:
        """The top folder of the project."""
        return self.config.home

    @property
    def writable(self) -> tuple[Path, ...]:
        """The folders below which a run may write."""
        return tuple(filter(None, (self.home, self.out, self.package_root)))

    def environment(self) -> Environment:
        """A fresh view of the modules that modular files may name."""
        roots = [self.home / root for root in self.config.roots]
        env = make_environment(self.home, self.package_root, roots)
        return dataclasses.replace(env, allow_bidi=self.allow_bidi)

    def display_path(self, path: Path) -> str:
        """`path` relative to the first of the writable roots that holds it, with `/`."""
        for root in self.writable:
            if is_below(path, root):
                return "/".join(path.parts[len(root.parts) :]) or "."
        return path.as_posix()


@dataclass(frozen=True, slots=True, order=True)
class Modular:
    """One modular file, with the folder of its outputs and its profile.

    `recorded`: its outputs stand in the project's patchgen.lock.  Outputs in another tree, and
    those that `--out` sent elsewhere, are recorded in the cache only.
    """

    display_path: str
    path: Path
    folder: Path
    profile: str
    recorded: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """The modular files of a run.

    Generated files in `folders` must come from one of `modulars`.  `whole`: no paths were named, so
    that the run is about everything that the project has.
    """

    modulars: tuple[Modular, ...]
    folders: tuple[Path, ...]
    problems: tuple[Problem, ...]
    whole: bool


def discover(
    project: Project, paths: Sequence[Path] = (), resolve: Resolve | None = None
) -> Selection:
    """Find the modular files below `paths`, or else those that the configuration names."""
    resolve = resolve or resolver()
    is_package = functools.cache(_is_package)
    output_of = output_folders(project)
    problems: list[Problem] = []
    # By path, as several of `paths` may lead to one file.
    modulars: dict[Path, Modular] = {}
    folders: list[Path] = []
    for path in paths or [project.home / source for source in project.config.sources]:
        # A modular file that is a link keeps its own name, which says what it is.
        top = resolve(path.parent) / path.name
        files = list(_modular_files(project, top))
        if not files:
            problems.append(_nothing_at(project, path))
        if not MODULAR.fullmatch(top.name) and top.is_dir():
            folders.append(output_of(top.resolve()))
        for file in files:
            try:
                refuse_unseen(project.display_path(file))
            except PatchgenError as error:
                problems.append(error.problem)
                continue
            if MODULAR.fullmatch(file.name):
                modulars[file] = make_modular(project, file, is_package, output_of)
            else:
                # The name of the output's module is made from it.
                stem = file.name.removeprefix("modular_").removesuffix(".py")
                what = f"{stem!r} cannot be part of a module's name"
                hint = "use letters, digits and underscores"
                problems.append(Problem(Location(_shown(project, file)), "PG506", what, hint))
    if not modulars and not problems:
        what = "nothing to do: no paths were given and the configuration names no sources"
        hint = "start a project with `patchgen init`, or name files"
        problems.append(Problem(Location(FILE), "PG505", what, hint))
    if not paths and not problems:
        # Also where `sources` leaves out the modular files that these folders are for.
        for source, _ in project.config.outputs:
            mapped = project.home / source
            folders.append(output_of(mapped.resolve()))
    ordered = tuple(sorted(modulars.values()))
    return Selection(ordered, tuple(dict.fromkeys(folders)), tuple(problems), whole=not paths)


def modular_path(config: Config, model: str, ending: str) -> Path:
    """Where a new modular file of `model` goes: into the first folder of sources."""
    sources = config.sources or ("modular",)
    return config.home / sources[0] / model / f"modular_{model}_{ending}.py"


def make_modular(
    project: Project,
    path: Path,
    is_package: Callable[[str], bool] = _is_package,
    output_of: Callable[[Path], Path] | None = None,
) -> Modular:
    """The modular file at the absolute `path`."""
    folder = (output_of or output_folders(project))(path.parent)
    profile = profile_of(path, is_package)
    root = project.package_root
    is_foreign = profile == TRANSFORMERS or (root is not None and is_below(path, root))
    # Nothing but outputs is written into a tree that is not ours, even if we stand in it.
    if is_foreign or project.out is not None:
        recorded = False
    else:
        recorded = is_below(path, project.home) and is_below(folder, project.home)
    return Modular(project.display_path(path), path, folder, profile, recorded)


def output_folders(project: Project) -> Callable[[Path], Path]:
    """A function that gives the folder for outputs of modular files in a folder.

    It is `--out`, else what the longest mapping says, else the folder itself, which is absolute and
    resolved.  The function raises PatchgenError PG904 where a mapping leads out of the project.
    """
    by_length = sorted(project.config.outputs, key=lambda pair: -len(Path(pair[0]).parts))
    mapped = [((project.home / source).resolve(), source, output) for source, output in by_length]
    resolve = resolver()

    @functools.cache
    def output_of(folder: Path) -> Path:
        if project.out is not None:
            return project.out
        for base, source, output in mapped:
            if is_below(folder, base):
                target = resolve(project.home / output / folder.relative_to(base))
                if target.is_relative_to(project.home):
                    return target
                what = f"{TABLE}.outputs.{source}: {output} leads out of the project"
                hint = "use --out for a folder elsewhere"
                raise PatchgenError("PG904", Location(FILE), what, hint)
        return folder

    return output_of


def confine(project: Project, path: Path) -> Path:
    """`path` with symbolic links followed, if writing there is allowed.

    Raises PatchgenError PG904 otherwise: a run writes only to the project and to the folders that
    the command line names.
    """
    return disk.confine(path, project.writable)


def profile_of(path: Path, is_package: Callable[[str], bool] = _is_package) -> str:
    """The profile of the file at `path`.

    Files inside transformers are flattened by its rules.
    """
    package = os.path.dirname(path)
    # The outermost package counts.  The root of a file system is the folder above itself.
    while (above := os.path.dirname(package)) != package and is_package(above):
        package = above
    inside = os.path.basename(package) == "transformers" and is_package(package)
    return TRANSFORMERS if inside else STRICT


def resolver() -> Resolve:
    """`Path.resolve` for many folders, which resolves their common parents once."""

    @functools.cache
    def resolved(folder: Path) -> Path:
        # Behind a link, `..` is not the folder that stands to the left of it.  On Windows, a folder
        # may have a short name.
        if folder.name in ("", "..") or os.name != "posix":
            return folder.resolve()
        here = resolved(folder.parent) / folder.name
        return here.resolve() if os.path.islink(here) else here

    return resolved


def _modular_files(project: Project, top: Path) -> Iterator[Path]:
    """The paths with a modular name at or below `top`, sorted.

    Folders and pipes with such a name are included; the reader refuses them.
    """
    if _LOOKS_MODULAR.fullmatch(top.name):
        if os.path.lexists(top):
            yield top
        return
    # Links to folders are not followed: all below is real.
    for folder, inner, files in os.walk(top.resolve()):
        # `os.walk` goes into what is left of `inner`.
        inner[:] = sorted(filter(_is_searched, inner))
        for name in sorted([*files, *inner]):
            if not _LOOKS_MODULAR.fullmatch(name):
                continue
            path = Path(folder, name)
            if not _is_excluded(project, path):
                yield path


def _is_searched(folder: str) -> bool:
    return not folder.startswith(".") and folder not in SKIPPED


def _is_excluded(project: Project, path: Path) -> bool:
    """Whether a pattern of the configuration names the file or a folder around it."""
    if not project.config.exclude:
        return False
    display_path = project.display_path(path)
    # A pattern that fits a folder leaves out all that is in it.
    parts = [display_path, *(parent.as_posix() for parent in Path(display_path).parents)]
    return any(fnmatch.filter(parts, pattern) for pattern in project.config.exclude)


def _nothing_at(project: Project, path: Path) -> Problem:
    """The problem of a path that leads to no modular file."""
    at = Location(_shown(project, path))
    if path.is_dir():
        link = _find_linked_folder(path)
        if link is not None:
            shown = _shown(project, link)
            hint = (
                f"{shown} is a link to a folder: such links are searched only where they are named"
            )
        else:
            hint = "modular files are named modular_NAME.py; "
            hint += "`patchgen new llama --with loss` writes one, for example"
        return Problem(at, "PG505", "holds no modular file", hint)
    if path.exists():
        hint = "modular files are named modular_NAME.py"
        return Problem(at, "PG506", "is not a modular file", hint)
    # What lies beside the first part that does not exist; a path may go on behind a file.
    missing = [part for part in (path, *path.parents) if not part.exists()][-1]
    above = missing.parent
    names = [entry.name for entry in above.iterdir()] if above.is_dir() else []
    return Problem(at, "PG506", "does not exist", did_you_mean(missing.name, names))


def _find_linked_folder(top: Path) -> Path | None:
    """The first link to a folder below `top`: what is behind it is not searched."""
    for folder, inner, _ in os.walk(top.resolve()):
        inner[:] = sorted(filter(_is_searched, inner))
        for name in inner:
            if os.path.islink(os.path.join(folder, name)):
                return Path(folder, name)
    return None


def _shown(project: Project, path: Path) -> str:
    # A line break in a file name would break a message, and an annotation with it.
    display_path = project.display_path(path.parent.resolve() / path.name)
    return printable_line(display_path)
