"""What every command starts with: the project, its modular files and their outcomes."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from patchgen.cli import terminal
from patchgen.project.base import Base, Change, open_base
from patchgen.project.cache import Cache
from patchgen.project.check import Evidence, examine
from patchgen.project.config import FILE, Config, find_config, nearest_config, read_config
from patchgen.project.files import (
    LINT,
    STRICT,
    TRANSFORMERS,
    Modular,
    Project,
    Resolve,
    Selection,
    confine,
    discover,
    is_below,
    profile_of,
    resolver,
)
from patchgen.project.lock import load_records
from patchgen.project.outcome import Outcome, with_warnings_as_errors
from patchgen.project.overrides import load_overrides
from patchgen.project.parents import find_hidden_release, require_release
from patchgen.project.run import Progress, run
from patchgen.project.verdict import Report, Status
from patchgen.project.versions import describe_versions
from patchgen.project.write import hold_write_locks
from patchgen.syntax.errors import Location, PatchgenError, Refusals, did_you_mean

if TYPE_CHECKING:
    from patchgen.project.convert import Written
    from patchgen.project.drift import Drift


@dataclass(frozen=True, slots=True)
class Request:
    """The options of the command line, as they were given."""

    paths: tuple[str, ...] = ()
    out: str | None = None
    package_root: str | None = None
    jobs: int = 0  # 0: as many as make it faster
    cached: bool = True
    allow_bidi: bool = False
    warnings_as_errors: bool = False  # also where the configuration does not say so
    release: str | None = None
    base: str | None = None  # a commit


@dataclass(frozen=True)
class Session:
    """One run on the modular files of a project."""

    request: Request
    project: Project
    selection: Selection
    base: Base | None = None
    progress: Progress = field(repr=False, default=lambda done: None)

    @property
    def made_by(self) -> str:
        """The releases that make the outputs of this run, as they are recorded."""
        return describe_versions(self.project.environment(), self.project.config.settings.formatter)

    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcome of flattening each modular file."""
        return self._run(self.selection.modulars, Cache(self.project, self.request.cached))

    def lint(self) -> tuple[Outcome, ...]:
        """The outcomes with the findings of lint as well, which is about a project's own files."""
        modulars = []
        for modular in self.selection.modulars:
            if modular.profile == STRICT:
                modular = replace(modular, profile=LINT)
            modulars.append(modular)
        return self._run(modulars, Cache(self.project, self.request.cached))

    def again(self, modulars: Sequence[Modular]) -> tuple[Outcome, ...]:
        """The outcomes of some modular files with their texts."""
        cache = Cache(self.project, self.request.cached, with_texts=True)
        return self._run(modulars, cache)

    def check(self) -> Report:
        """The report of the gate; only the cache is written."""
        report = self._examine()
        return report if self.base is None else replace(report, changes=self._changes(self.base))

    def _changes(self, base: Base) -> tuple[Change, ...]:
        """How the tree differs from `base` in what the check goes by."""
        home = self.project.home
        changes = list(base.changes(home))
        paths = [Path.cwd() / path for path in self.request.paths]
        config = _config_of(paths, self.project.package_root, resolver())
        if config.home != home:
            before = home.relative_to(base.top).as_posix()
            now = config.home.relative_to(base.top).as_posix()
            change = Change(FILE, "the folder of the configuration", before, now)
            changes.append(change)
        return tuple(changes)

    def _examine(self) -> Report:
        report = examine(self.project, self.selection, self.outcomes(), self._evidence())
        if all(verdict.status is Status.OK for verdict in report.verdicts):
            return report
        # Another run may have been writing: what is wrong has to be so when none is.
        with contextlib.ExitStack() as held:
            # Where no lock can be made, no other run writes either.
            with contextlib.suppress(OSError):
                held.enter_context(hold_write_locks(self.project, self.project.writable))
            return examine(self.project, self.selection, report.outcomes, self._evidence())

    def drift(self, report: Report) -> tuple[Drift, ...]:
        """Whether the recorded variants fit the release at `--package-root`."""
        has_records = any(modular.recorded for modular in self.selection.modulars)
        if self.project.package_root is None or not has_records:
            return ()
        # Imported here: most runs compare with no other release.
        from patchgen.project.drift import find_drift

        cache = Cache(self.project, self.request.cached)
        return find_drift(self.project, report, load_records(self.project), cache)

    def convert(
        self, *, force: bool = False, remove: bool = False, accept: bool = False
    ) -> Written:
        """Write what the gate would find wrong; `accept` records the parents of stale overrides.

        Raises PatchgenError PG904, before any work, if an output is outside the writable folders.
        """
        # Imported here: it loads what writes files, and `check` writes none.
        from patchgen.project.convert import convert

        for modular in self.selection.modulars:
            confine(self.project, modular.folder)
        outcomes = self.outcomes()
        evidence = self._evidence(accept=accept)
        return convert(self.project, self.selection, outcomes, evidence, force=force, remove=remove)

    def _evidence(self, *, accept: bool = False) -> Evidence:
        records = load_records(self.project, self.selection)
        overrides = load_overrides(self.project)
        env = self.project.environment()
        before = {} if self.base is None else self.base.records(self.project.home)
        return Evidence(records, self.made_by, self.again, env, overrides, accept, before)

    def _run(self, modulars: Sequence[Modular], cache: Cache) -> tuple[Outcome, ...]:
        outcomes = run(modulars, cache, self.request.jobs, self.progress)
        if self.project.release is not None:
            outcomes = require_release(self.project, outcomes)
        if self.request.warnings_as_errors or self.project.config.warnings_as_errors:
            return tuple(map(with_warnings_as_errors, outcomes))
        return outcomes


def open_session(request: Request) -> Session:
    """The session for `request` in the current folder; its paths may be names of variants.

    Raises PatchgenError if the configuration is wrong, and PG916 for a name of nothing.
    """
    here = Path.cwd()
    resolve = resolver()
    base = None
    if request.base is not None:
        base = open_base(request.base, here.resolve())
    existing = tuple(path for path in request.paths if Path(path).exists())
    if existing != request.paths:
        # Those that exist say which project it is about.
        project = open_project(replace(request, paths=existing), resolve, base)
        paths = find_variants(project, request.paths)
        request = replace(request, paths=tuple(map(str, paths)))
    project = open_project(request, resolve, base)
    paths_here = [here / path for path in request.paths]
    selection = discover(project, paths_here, resolve)
    return Session(request, project, selection, base)


def open_authored(request: Request) -> Project:
    """The project of a command that writes modular files; says whose transformers it reads."""
    project = open_project(request)
    if (problem := find_hidden_release(project)) is not None:
        terminal.say(problem, err=True)
    return project


def open_project(
    request: Request, resolve: Resolve = Path.resolve, base: Base | None = None
) -> Project:
    """The project of the paths of `request`, else that of the current folder."""
    paths = [Path.cwd() / path for path in request.paths]
    root = request.package_root
    out = request.out
    package_root = None if root is None else Path(root).resolve()
    return Project(
        config=_config_of(paths, package_root, resolve, base),
        out=None if out is None else Path(out).resolve(),
        package_root=package_root,
        allow_bidi=request.allow_bidi,
        release=request.release,
    )


def _config_of(
    paths: Sequence[Path],
    package_root: Path | None,
    resolve: Resolve,
    base: Base | None = None,
) -> Config:
    """The configuration above `paths`; that of `base`, where it has one.

    Paths in the tree of transformers have none: for those, that of the current folder is used.
    Raises PatchgenError PG913 for paths of several projects.
    """
    folders = sorted({resolve(path if path.is_dir() else path.parent) for path in paths})
    inside = [folder for folder in folders if not _is_foreign(folder, package_root)]
    start = Path(os.path.commonpath(inside)) if inside else Path.cwd().resolve()
    read = functools.cache(read_config if base is None else base.read_config)
    if base is not None and not any(nearest_config(f, read) for f in (start, *inside)):
        read = functools.cache(read_config)  # there was no check before
    nearest = (nearest_config(folder, read) for folder in inside)
    configs = {config.home: config for config in nearest if config is not None}
    if len(configs) > 1:
        homes = " and ".join(map(str, sorted(configs)[:2]))
        what = f"the paths belong to several projects: {homes}"
        hint = "run patchgen for each"
        raise PatchgenError("PG913", Location(FILE), what, hint)
    if configs:
        return next(iter(configs.values()))
    return find_config([start], read)


def _is_foreign(folder: Path, package_root: Path | None) -> bool:
    """Whether `folder` is below `--package-root`, or in or around transformers."""
    if package_root is not None and is_below(folder, package_root):
        return True
    around = (folder / "transformers" / "__init__.py").is_file()
    return around or profile_of(folder / "modular_x.py") == TRANSFORMERS


def find_variants(project: Project, names: Sequence[str]) -> tuple[Path, ...]:
    """The paths that `names` are, or that the variants of these names have, in order.

    Raises PatchgenError PG916 for a name that is neither.
    """
    variants: dict[str, Path] = {}
    if not all(Path(name).exists() for name in names):
        for modular in discover(project).modulars:
            variants[modular.path.stem.removeprefix("modular_")] = modular.path
    paths = []
    for name in names:
        path = Path(name)
        if path.exists():
            paths.append(path.resolve())
        elif name in variants:
            paths.append(variants[name])
        else:
            hint = _hint_for(name, variants)
            raise PatchgenError("PG916", Location(name), "is no variant and no path", hint)
    return tuple(paths)


def _hint_for(name: str, variants: Iterable[str]) -> str:
    """The variants, and what lies beside the first part of a path, that are spelt nearly so."""
    path = Path.cwd() / name
    missing = [part for part in (path, *path.parents) if not part.exists()][-1]
    # A path may go on behind a file.
    beside = missing.parent.iterdir() if missing.parent.is_dir() else ()
    nearly = did_you_mean(missing.name, (entry.name for entry in beside))
    return did_you_mean(name, variants) or nearly or "`patchgen list` lists the variants"


def named_modulars(project: Project, names: tuple[str, ...]) -> tuple[Modular, ...]:
    """The modular files that names of variants or paths stand for."""
    selection = discover(project, find_variants(project, names))
    if selection.problems:
        raise Refusals(selection.problems)
    return selection.modulars
