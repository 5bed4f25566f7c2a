"""Look at what stands on disk where outputs belong.

In: the outcomes of a run.  Out: one frozen value for each file of their outputs, and problems with
what cannot be read.  All that verdicts on these files need is read here, so that judging them looks
at no file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchgen.compiler.flat import is_generated
from patchgen.project.batch.outcome import Outcome, digest_of_bytes, digest_of_file
from patchgen.project.files import Project, confine
from patchgen.project.places import lock_of
from patchgen.syntax.errors import Location, PatchgenError, Problem, problems_of
from patchgen.syntax.regular import read_regular

HEAD = 20_000  # bytes in which a banner is looked for


@dataclass(frozen=True, slots=True)
class Present:
    """What stands on disk in the place of one file of an output.

    `text` is read only for outputs that are not all right.  `is_foreign`: patchgen did not write
    it, and must not replace it.
    """

    digest: str = ""  # empty where there is no file
    text: str | None = field(default=None, repr=False)
    is_foreign: bool = False
    instead: str = ""  # what stands there, in words, if it is no file


def look_at_outputs(
    project: Project, outcomes: Sequence[Outcome]
) -> tuple[dict[Path, Present], list[Problem]]:
    """What stands where the outputs of `outcomes` belong, and what cannot be read."""
    files: dict[Path, Present] = {}
    problems = _linked_lock(project, outcomes)
    for outcome in outcomes:
        digests: dict[Path, str] = {}
        for path, _ in outcome.files:
            try:
                _require_inside(project, path)
                digests[path] = _digest(path)
            except PatchgenError as error:
                problems += problems_of(error)
            except OSError as error:
                what = f"cannot be read: {error.strerror or error}"
                problems.append(Problem(Location(project.display_path(path)), "PG903", what))
        # In an unchanged tree, digests are all that is needed.
        if digests == dict(outcome.files):
            files.update((path, Present(digest)) for path, digest in digests.items())
        else:
            files.update((path, _read(path, digest)) for path, digest in digests.items())
    return files, problems


def are_as_expected(outcome: Outcome, files: Mapping[Path, Present]) -> bool:
    """Whether every file of the outcome is on disk as it should be."""
    return all(path in files and files[path].digest == digest for path, digest in outcome.files)


def _linked_lock(project: Project, outcomes: Sequence[Outcome]) -> list[Problem]:
    """A problem where the records of `outcomes` lie outside the project."""
    try:
        if any(outcome.modular.recorded for outcome in outcomes):
            _require_inside(project, lock_of(project, project.home))
    except PatchgenError as error:
        return list(problems_of(error))
    return []


def _require_inside(project: Project, path: Path) -> None:
    """Raise PatchgenError PG904 for a link that leads out of where `convert` may write."""
    if path.is_symlink():
        confine(project, path)


def _digest(path: Path) -> str:
    """The digest of the file at `path`; "" where there is none, or something that is no file.

    Raises OSError for a file that cannot be read.
    """
    digest = digest_of_file(path)
    if digest or not path.is_file():
        return digest
    # It cannot be read: the same once more, for the error.
    return digest_of_bytes(read_regular(path))


def _read(path: Path, digest: str) -> Present:
    """What stands at `path`, with its text."""
    if not path.exists():
        return Present()
    if not path.is_file():
        instead = "a folder" if path.is_dir() else "no regular file"
        return Present(is_foreign=True, instead=instead)
    data = read_regular(path)
    # An edit may have left bytes that are no text: they are shown, and not what stops the run.
    text = data.decode("utf-8", errors="replace")
    head = data[:HEAD].decode("utf-8", errors="replace")
    return Present(digest, text, is_foreign=not _is_ours(path.suffix, head))


def _is_ours(suffix: str, head: str) -> bool:
    """Whether patchgen wrote the file that begins with `head`."""
    if suffix == ".diff":
        # A diff has no banner.  An empty file may be replaced: nothing in it is lost.
        return not head or head.startswith("--- ")
    return is_generated(head)
