"""Say where parents come from, where that is not the release that was asked for.

A folder `transformers` of the project, or below one of its `roots`, is found before the installed
release: what its files say would stand in an output as "Modified from transformers".  In: the
outcomes of a run, with every module that was read.  Out: the packages of the project among them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchgen.project.files import TRANSFORMERS, Project
from patchgen.project.outcome import Outcome, Read, digest_of_file
from patchgen.project.versions import release_of
from patchgen.syntax.errors import Location, PatchgenError, Problem
from patchgen.syntax.locate import Environment, search_path

INSTALLED = "installed"  # the release that is asked for where it is named by no number
# The packages whose names say whose code it is.
_PUBLISHED = ("transformers", "patchgen", "torch")


@dataclass(frozen=True, slots=True)
class Parents:
    """The modules of `package` that `modulars` take from the project.

    `path` is the file of the first.  `instead_of` is the release whose modules they hide, or
    "installed"; it is "" for a package of the project's own.
    """

    package: str
    path: str
    modules: tuple[str, ...]
    modulars: tuple[str, ...]
    instead_of: str
    severity: str = "warning"

    @property
    def problem(self) -> Problem | None:
        """The finding; none for the project's own package."""
        if not self.instead_of:
            return None
        more = f" and {len(self.modules) - 1} more" if self.modules[1:] else ""
        hidden = f"{self.package} {self.instead_of}"
        if self.instead_of == INSTALLED:
            hidden = f"the installed {self.package}"
        what = f"stands in the place of {hidden}: "
        what += f"{self.modulars[0]} takes {self.modules[0]}{more} from there"
        hint = "delete or rename its folder; to take parents from there, name it: --package-root"
        return Problem(Location(self.path), "PG514", what, hint, self.severity)

    def data(self) -> dict[str, Any]:
        """This as JSON."""
        return {
            "package": self.package,
            "path": self.path,
            "modules": list(self.modules),
            "modulars": list(self.modulars),
            "instead_of": self.instead_of,
        }


def find_parents(project: Project, outcomes: Sequence[Outcome]) -> tuple[Parents, ...]:
    """The packages that modular files take from the project, sorted."""
    asked = _asked_for(project)
    packages: dict[str, list[tuple[str, str, str]]] = {}
    # transformers' own modular files are made from the files beside them.
    others = [outcome for outcome in outcomes if outcome.modular.profile != TRANSFORMERS]
    # Modular files share parents: each is asked for once.
    reads = set[Read]().union(*(outcome.reads for outcome in others))
    roots = set()
    for root in (".", *project.config.roots):
        folder = project.home / root
        roots.add(str(folder.resolve()))
    ours = {read for read in reads if _root_of(read) in roots and _is_of_project(read, asked)}
    for outcome in others:
        modular = outcome.modular
        for read in ours.intersection(outcome.reads):
            if read.path == str(modular.path):
                continue
            package = read.module.partition(".")[0]
            path = project.display_path(Path(read.path))
            taken = read.module, path, modular.display_path
            packages.setdefault(package, []).append(taken)
    severity = "error" if project.release else "warning"
    parents = []
    for package, files in sorted(packages.items()):
        columns = zip(*files, strict=True)
        modules, paths, modulars = (tuple(sorted(set(names))) for names in columns)
        instead_of = ""
        if package in _PUBLISHED:
            instead_of = release_of(package, asked) or INSTALLED
        parents.append(Parents(package, paths[0], modules, modulars, instead_of, severity))
    return tuple(parents)


def find_hidden_release(project: Project) -> Problem | None:
    """PG514 where the project has a transformers of its own before the one that is asked for."""
    path = project.environment().path("transformers")
    asked = _asked_for(project)
    hidden = asked.path("transformers")
    if path is None or hidden is None or path == hidden:
        return None
    what = f"stands in the place of transformers {release_of('transformers', asked) or INSTALLED}"
    hint = "delete or rename its folder if it is not meant"
    return Problem(Location(project.display_path(path)), "PG514", what, hint, "warning")


def require_release(project: Project, outcomes: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """`outcomes`, without outputs where parents are not from the release that `project` asks for.

    Raises PatchgenError PG514 where that release is not the one at hand.
    """
    wanted = (project.release or INSTALLED).removesuffix(".*")
    release = release_of("transformers", _asked_for(project))
    is_wanted = wanted in (INSTALLED, release) or release.startswith(f"{wanted}.")
    if not release or not is_wanted:
        at = Location("transformers")
        what = f"is {release or 'not installed'}, and --release asks for {wanted}"
        raise PatchgenError("PG514", at, what, "install that release")
    refused: dict[str, list[Problem]] = {}
    for parents in find_parents(project, outcomes):
        problem = parents.problem
        if problem is not None:
            for modular in parents.modulars:
                refused.setdefault(modular, []).append(problem)
    return tuple(_without_outputs(o, refused.get(o.modular.display_path)) for o in outcomes)


def _without_outputs(outcome: Outcome, problems: Sequence[Problem] | None) -> Outcome:
    if not problems:
        return outcome
    every = tuple(sorted({*outcome.problems, *problems}))
    # As of any file with an error, the records stay.
    return replace(outcome, outputs=(), problems=every, overrides=(), texts={})


def _asked_for(project: Project) -> Environment:
    """Where the parents are that were asked for: `--package-root`, and what is installed."""
    folders = [Path(entry) for entry in search_path()]
    if project.package_root is not None:
        folders.insert(0, project.package_root)
    return Environment(tuple(folder.resolve() for folder in folders), project.home)


def _root_of(read: Read) -> str:
    """The folder in which the module was found."""
    depth = read.module.count(".") + (2 if os.path.basename(read.path) == "__init__.py" else 1)
    return read.path.rsplit(os.sep, depth)[0]


def _is_of_project(read: Read, asked: Environment) -> bool:
    """Whether a module was read that `asked` does not have."""
    # What a relative import finds beside a file has no package.
    if not read.module.partition(".")[0].isidentifier():
        return False
    path = asked.path(read.module)
    # The same text under the name of a release is that of the release.
    return path is None or read.path != str(path) and read.digest != digest_of_file(path)
