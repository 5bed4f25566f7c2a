"""What every command starts with: the project, its modular files and their outcomes."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

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
from patchgen.project.run import Progress, run
from patchgen.project.verdict import Report, Status
from patchgen.project.versions import versions
from patchgen.project.write import hold_write_locks
from patchgen.syntax.errors import Location, PatchgenError

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


@dataclass(frozen=True)
class Session:
    """One run on the modular files of a project."""

    request: Request
    project: Project
    found: Selection
    progress: Progress = field(repr=False, default=lambda done: None)

    @property
    def made_by(self) -> str:
        """The releases that make the outputs of this run, as they are recorded."""
        env = self.project.environment()
        releases = versions(env, self.project.config.settings.formatter)
        return ", ".join(f"{name} {version}" for name, version in releases)

    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcome of flattening each modular file."""
        return self._run(self.found.modulars, Cache(self.project, self.request.cached))

    def lint(self) -> tuple[Outcome, ...]:
        """The outcomes with the findings of lint as well, which is about a project's own files."""
        modulars = [
            replace(modular, profile=LINT) if modular.profile == STRICT else modular
            for modular in self.found.modulars
        ]
        return self._run(modulars, Cache(self.project, self.request.cached))

    def again(self, modulars: Sequence[Modular]) -> tuple[Outcome, ...]:
        """The outcomes of some modular files, flattened again to have their texts."""
        return self._run(modulars, Cache(self.project, False))

    def check(self) -> Report:
        """The report of the gate; only the cache is written."""
        report = examine(self.project, self.found, self.outcomes(), self._evidence())
        if all(verdict.status is Status.OK for verdict in report.verdicts):
            return report
        # Another run may have been writing: what is wrong has to be so when none is.
        with contextlib.ExitStack() as held:
            # Where no lock can be made, no other run writes either.
            with contextlib.suppress(OSError):
                held.enter_context(hold_write_locks(self.project, self.project.writable))
            return examine(self.project, self.found, report.outcomes, self._evidence())

    def drift(self, report: Report) -> tuple[Drift, ...]:
        """Whether the recorded variants fit the release at `--package-root`."""
        if self.project.package_root is None or not any(
            modular.recorded for modular in self.found.modulars
        ):
            return ()
        # Imported here: most runs compare with no other release.
        from patchgen.project.drift import find_drift

        return find_drift(self.project, report, load_records(self.project))

    def convert(
        self, *, force: bool = False, remove: bool = False, accept: bool = False
    ) -> Written:
        """Write what the gate would find wrong; `accept` records the parents of stale overrides.

        Raises PatchgenError PG904, before any work, if an output is outside the writable folders.
        """
        # Imported here: it loads what writes files, and `check` writes none.
        from patchgen.project.convert import convert

        for modular in self.found.modulars:
            confine(self.project, modular.folder)
        outcomes, evidence = self.outcomes(), self._evidence(accept=accept)
        return convert(self.project, self.found, outcomes, evidence, force=force, remove=remove)

    def _evidence(self, *, accept: bool = False) -> Evidence:
        records, overrides = load_records(self.project, self.found), load_overrides(self.project)
        env = self.project.environment()
        return Evidence(records, self.made_by, self.again, env, overrides, accept)

    def _run(self, modulars: Sequence[Modular], cache: Cache) -> tuple[Outcome, ...]:
        outcomes = run(modulars, cache, self.request.jobs, self.progress)
        if self.request.warnings_as_errors or self.project.config.warnings_as_errors:
            return tuple(map(with_warnings_as_errors, outcomes))
        return outcomes


def open_session(request: Request) -> Session:
    """The session for `request` in the current folder.

    Raises PatchgenError if the configuration is wrong.
    """
    paths, resolve = _absolute_paths(request), resolver()
    project = _open(request, paths, resolve)
    return Session(request, project, discover(project, paths, resolve))


def open_project(request: Request) -> Project:
    """The project of the paths of `request`, else that of the current folder."""
    return _open(request, _absolute_paths(request), Path.resolve)


def _open(request: Request, paths: Sequence[Path], resolve: Resolve) -> Project:
    package_root = _given_folder(request.package_root)
    return Project(
        config=_config_of(paths, package_root, resolve),
        out=_given_folder(request.out),
        package_root=package_root,
        allow_bidi=request.allow_bidi,
    )


def _absolute_paths(request: Request) -> list[Path]:
    here = Path.cwd()
    return [here / path for path in request.paths]


def _config_of(paths: Sequence[Path], package_root: Path | None, resolve: Resolve) -> Config:
    """The configuration above `paths`.

    Paths in the tree of transformers have none: for those, that of the current folder is used.
    Raises PatchgenError PG913 for paths of several projects.
    """
    folders = sorted({resolve(path if path.is_dir() else path.parent) for path in paths})
    own = [folder for folder in folders if not _is_foreign(folder, package_root)]
    read = functools.cache(read_config)
    configs = {
        config.home: config
        for folder in own
        if (config := nearest_config(folder, read)) is not None
    }
    if len(configs) > 1:
        homes = " and ".join(map(str, sorted(configs)[:2]))
        hint = "run patchgen for each of them"
        raise PatchgenError(
            "PG913", Location(FILE), f"the paths belong to several projects: {homes}", hint
        )
    if own:
        return next(iter(configs.values()), None) or find_config([Path(os.path.commonpath(own))])
    return find_config([Path.cwd()])


def _is_foreign(folder: Path, package_root: Path | None) -> bool:
    """Whether `folder` is below `--package-root`, or in or around transformers."""
    if package_root is not None and is_below(folder, package_root):
        return True
    around = (folder / "transformers" / "__init__.py").is_file()
    return around or profile_of(folder / "modular_x.py") == TRANSFORMERS


def _given_folder(path: str | None) -> Path | None:
    return None if path is None else Path(path).resolve()
