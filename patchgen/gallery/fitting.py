"""Give each model of the gallery the file that fits the installed transformers.

That is the file which comes with patchgen, where transformers' files are those that it was made
from.  Else the model's modular file is converted, without importing anything, and its outputs are
kept in the user's cache folder.  Their folder has a name made from their content, and each file is
moved into it whole.  So runs at the same time write the same, and the next run writes what a killed
one did not.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from patchgen import disk
from patchgen.project.cache import Cache
from patchgen.project.config import Config
from patchgen.project.files import STRICT, Modular, Project
from patchgen.project.lock import Record, modules_read, read_lock, shorten
from patchgen.project.outcome import Outcome, digest_of_file
from patchgen.project.places import LOCK, private_folder
from patchgen.project.run import run
from patchgen.project.versions import describe_versions, release_in, release_of
from patchgen.syntax.errors import Problem, Refusals


@dataclass(frozen=True, slots=True)
class Fitted:
    """The file of a model, and what it was made from, as patchgen.lock says it."""

    path: Path
    modular: str = ""
    made_by: str = ""
    reads: Mapping[str, str] = field(default_factory=dict)


@functools.cache
def fit(output: Path, home: Path) -> Fitted:
    """The file to import for `output`, which comes with patchgen; `home` has its patchgen.lock.

    Raises ImportError where its modular file cannot be converted for the installed transformers,
    and where nothing can be written.
    """
    record = _records(home).get(f"generated/{output.parent.name}/{output.name}")
    package = importlib.util.find_spec("transformers")  # imports nothing
    if record is None or package is None or package.origin is None:
        return Fitted(output)
    # Before all else on the search path: Python may have another reason to take this one.
    folder = Path(package.origin).parents[1]
    project = Project(Config(home, roots=(str(folder),)))
    if _is_made_from(record, project):
        return Fitted(output, record.modular, record.made_by, record.reads)
    try:
        return _converted(output, record, project)
    except Refusals as error:
        raise ImportError(_refusal(output, record, project, error.problems)) from error
    except OSError as error:
        what = f"{output.name} was converted for the installed transformers, and cannot be written"
        raise ImportError(f"{what}: {error}; PATCHGEN_CACHE_DIR names another folder") from error


@functools.cache
def _records(home: Path) -> Mapping[str, Record]:
    return read_lock(home / LOCK)


def _is_made_from(record: Record, project: Project) -> bool:
    """Whether each file of transformers that was read for the record is the same here."""
    env = project.environment()
    return all(
        shorten(digest_of_file(env.path(module) or "")) == digest
        for module, digest in record.reads.items()
        if module.partition(".")[0] == "transformers"
    )


def _converted(output: Path, record: Record, project: Project) -> Fitted:
    path = project.home / record.modular
    modular = Modular(record.modular, path, output.parent, STRICT, recorded=False)
    (outcome,) = run([modular], Cache(project), jobs=1)
    if outcome.problems:
        raise Refusals(outcome.problems)
    for found in (warning for each in outcome.outputs for warning in each.warnings):
        warnings.warn(
            f"{output.name} was converted for the installed release: {found}", stacklevel=2
        )
    made_by = describe_versions(project.environment(), project.config.settings.formatter)
    fitted = _kept(outcome, project) / output.name
    return Fitted(fitted, record.modular, made_by, modules_read(outcome))


def _refusal(output: Path, record: Record, project: Project, problems: tuple[Problem, ...]) -> str:
    """What went wrong, and what to do."""
    made_for = release_in(record.made_by)
    here = release_of("transformers", project.environment())
    lines = [
        f"{output.name} of patchgen.gallery was made for transformers {made_for}, and "
        f"{record.modular} cannot be converted for the installed {here}:",
        *map(str, problems),
    ]
    # All others say what this environment lacks.
    if not any(problem.code.startswith("PG9") for problem in problems):
        name = output.stem.partition("_")[2]
        lines.append(
            f"Install transformers {made_for}, or fit a copy of the modular file to this release: "
            f"`patchgen new --from-gallery {name}`"
        )
    return "\n".join(lines)


def _kept(outcome: Outcome, project: Project) -> Path:
    """The folder of the outputs: patchgen's own where they are the same, else one in the cache."""
    shipped = outcome.modular.folder
    if not _missing(outcome, shipped):
        return shipped
    content = "".join(f"{output.name} {output.digest}\n" for output in outcome.outputs)
    name = hashlib.sha256(content.encode()).hexdigest()[:16]
    try:
        folder = private_folder("gallery") / name
        _write_missing(outcome, project, folder)
    except OSError:  # nothing can be written there
        folder = disk.process_folder() / name
        _write_missing(outcome, project, folder)
    return folder


def _missing(outcome: Outcome, folder: Path) -> list[str]:
    """The names of the outputs that `folder` does not have as they are to be."""
    wanted = {output.name: output.digest for output in outcome.outputs}
    wanted |= {o.diff_name: o.diff_digest for o in outcome.outputs if o.diff_digest}
    return [name for name, digest in wanted.items() if digest_of_file(folder / name) != digest]


def _write_missing(outcome: Outcome, project: Project, folder: Path) -> None:
    disk.make_private(folder)
    missing = _missing(outcome, folder)
    if missing and outcome.texts is None:  # it comes from the cache
        (outcome,) = run([outcome.modular], Cache(project, with_texts=True), jobs=1)
    for name in missing:
        assert outcome.texts is not None
        disk.write(folder / name, outcome.texts[name], folder)
