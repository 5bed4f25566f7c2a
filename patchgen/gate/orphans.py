"""Which generated files, and records of such, does no modular file give any more?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from patchgen.batch.outcome import Outcome, digest_of_file, files_of
from patchgen.flat import is_generated
from patchgen.gate.lock import Record
from patchgen.gate.verdict import Status, Verdict, Wanted
from patchgen.project.files import Found, Project
from patchgen.project.places import LOCK

HEAD = 20_000  # bytes in which a banner is looked for


def find_orphans(
    project: Project, found: Found, outcomes: Sequence[Outcome], records: Mapping[Path, Record]
) -> tuple[Verdict, ...]:
    """A verdict on every orphan among the records in scope and in the folders that the run is about."""
    expected = {path for o in outcomes for made in o.made for path, _ in files_of(o.modular, made)}
    failed = {(o.modular.folder, o.modular.path.stem.removeprefix("modular_")) for o in outcomes if o.problems}

    def is_orphan(path: Path) -> bool:
        return path not in expected and not _belongs_to(path, failed)

    recorded = {
        path: _recorded_orphan(project, path, record)
        for path, record in records.items()
        if is_orphan(path) and _is_in_scope(path, record, found)
    }
    loose = [
        Verdict(project.shown(path), "", Status.ORPHANED)
        for path in _generated_files(found.folders, recorded.keys() | expected)
        if is_orphan(path)
    ]
    return (*recorded.values(), *loose)


def _is_in_scope(path: Path, record: Record, found: Found) -> bool:
    """Whether the run is about the output at `path`: by its folder, or by the modular file that gave it."""
    if any(path.is_relative_to(folder) for folder in found.folders):
        return True
    givers = [modular for modular in found.modulars if modular.shown == record.modular]
    return any(modular.recorded or modular.folder == path.parent for modular in givers)


def _recorded_orphan(project: Project, output: Path, record: Record) -> Verdict:
    """The verdict on a recorded output; its files are offered for removal unless one of them was edited."""
    files = [path for path in (output, output.with_suffix(".diff")) if path.exists()]
    untouched = all(digest_of_file(path) in (record.digest, record.diff_digest) for path in files)
    gone = "gives it no more" if (project.home / record.modular).exists() else "is gone"
    why = [f"{record.modular} {gone}"]
    if not untouched:
        why.append("it was edited by hand")
    if not files:
        why.append(f"only {LOCK} still names it")
    mend = tuple(Wanted(path, None) for path in files or [output])
    return Verdict(project.shown(output), record.modular, Status.ORPHANED, tuple(why), mend=mend if untouched else ())


def _generated_files(folders: Iterable[Path], known: set[Path]) -> Iterator[Path]:
    """The files with a banner below `folders` that are not `known`, sorted."""
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if path not in known and path.is_file() and has_banner(path):
                yield path


def has_banner(path: Path) -> bool:
    """Whether patchgen, or transformers' converter, says at the top of the file that it wrote it."""
    with path.open("rb") as file:
        return is_generated(file.read(HEAD).decode("utf-8", errors="replace"))


def _belongs_to(path: Path, failed: set[tuple[Path, str]]) -> bool:
    """Whether `path` may be an output of a modular file that failed, and so is no orphan."""
    return any(path.parent == folder and path.stem.endswith(f"_{name}") for folder, name in failed)
