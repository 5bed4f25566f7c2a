"""Find generated files, and records, that no modular file gives any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path

from patchgen.compiler.flat import is_generated
from patchgen.project.batch.outcome import Outcome, digest_of_file
from patchgen.project.files import Found, Modular, Project, discover
from patchgen.project.gate.lock import Record
from patchgen.project.gate.present import HEAD
from patchgen.project.gate.verdict import Status, Verdict, Wanted
from patchgen.project.places import LOCK
from patchgen.syntax.regular import read_regular


def find_orphans(
    project: Project, found: Found, outcomes: Sequence[Outcome], records: Mapping[Path, Record]
) -> tuple[Verdict, ...]:
    """A verdict on every orphan among the records and in the folders of the run."""
    expected = _find_expected(outcomes)
    # A file that fails today may give its outputs again tomorrow.
    failed = _places(outcome.modular for outcome in outcomes if outcome.problems)

    def is_orphan(path: Path) -> bool:
        return path not in expected and not _belongs_to(path, failed)

    # Few records are orphans; whether the run is about them takes longer to say.
    orphans = [path for path in records if is_orphan(path)]
    recorded = _find_in_scope(orphans, records, found)
    # A file may have lost its record, or may have been moved away from it.
    loose = _generated_files(found.folders, {*recorded, *expected})
    unrecorded = [path for path in loose if is_orphan(path)]
    # Looking at all other modular files takes time.
    if not recorded and not unrecorded:
        return ()
    others = _places_of_others(project, found)
    verdicts: list[Verdict] = []
    for path in recorded:
        if not _belongs_to(path, others):
            verdicts.append(_recorded_orphan(project, path, records[path]))
    for path in unrecorded:
        if not _belongs_to(path, others):
            verdicts.append(_loose_orphan(project, path, found))
    return tuple(verdicts)


def _find_expected(outcomes: Sequence[Outcome]) -> set[Path]:
    """The files that the outcomes give, diffs included."""
    expected: set[Path] = set()
    for outcome in outcomes:
        expected.update(path for path, _ in outcome.files)
    return expected


def _places(modulars: Iterable[Modular]) -> set[tuple[Path, str]]:
    """The folders of the outputs of `modulars`, and how the names of the outputs end."""
    return {(modular.folder, _name(modular)) for modular in modulars}


def _name(modular: Modular) -> str:
    return modular.path.stem.removeprefix("modular_")


def _places_of_others(project: Project, found: Found) -> set[tuple[Path, str]]:
    """The same for the rest of the project.

    These are modular files that the run does not include, and places without `--out`.
    """
    places: set[tuple[Path, str]] = set()
    for view in (project, replace(project, out=None)):
        places |= _places(discover(view).modulars)
    # Of the files of the run, it is known what they give.
    return places - _places(found.modulars)


def _find_in_scope(
    paths: Sequence[Path], records: Mapping[Path, Record], found: Found
) -> list[Path]:
    """Those of the recorded outputs at `paths` that the run is about.

    The folder of an output or its modular file decides.
    """
    recorded = {modular.display_path for modular in found.modulars if modular.recorded}
    # With `--out`, outputs that stand elsewhere are not what the run is about.
    places = {(modular.display_path, modular.folder) for modular in found.modulars}
    folders = {modular.folder for modular in found.modulars}

    def is_of_run(path: Path) -> bool:
        # A record takes time to read: first, what the path alone tells.
        if not recorded and path.parent not in folders:
            return False
        modular = records[path].modular
        return modular in recorded or (modular, path.parent) in places

    def is_below_folder(path: Path) -> bool:
        return any(path.is_relative_to(folder) for folder in found.folders)

    return [path for path in paths if is_below_folder(path) or is_of_run(path)]


def _recorded_orphan(project: Project, output: Path, record: Record) -> Verdict:
    """The verdict on a recorded output.

    Its files may be removed unless one of them was edited.
    """
    files = [path for path in (output, output.with_suffix(".diff")) if path.exists()]
    recorded = (record.digest, record.diff_digest)
    untouched = all(digest_of_file(path) in recorded for path in files)
    modular = project.home / record.modular
    why = [f"{record.modular} {'gives it no more' if modular.exists() else 'is gone'}"]
    if not untouched:
        why.append("it was edited by hand")
    if not files:
        why.append(f"only {LOCK} still names it")
    # What somebody edited is not removed; without files, the record alone goes.
    fixes = tuple(Wanted(path, None) for path in files or [output]) if untouched else ()
    return Verdict(
        project.display_path(output), record.modular, Status.ORPHANED, tuple(why), fixes=fixes
    )


def _loose_orphan(project: Project, path: Path, found: Found) -> Verdict:
    """The verdict on a generated file without a record.

    It may have been moved from another folder.
    """
    display_path = project.display_path(path)
    for modular in found.modulars:
        # As if the modular file's outputs stood in the folder of this one.
        if _belongs_to(path, {(path.parent, _name(modular))}):
            proper = project.display_path(modular.folder / path.name)
            why = f"{modular.display_path} gives {proper}"
            return Verdict(display_path, "", Status.ORPHANED, (why,))
    return Verdict(display_path, "", Status.ORPHANED)


def _generated_files(folders: Iterable[Path], known: set[Path]) -> Iterator[Path]:
    """The files with a banner below `folders` that are not in `known`, sorted."""
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if path not in known and path.is_file() and _has_banner(path):
                yield path


def _has_banner(path: Path) -> bool:
    """Whether the top of the file says that patchgen or transformers' converter wrote it."""
    return is_generated(read_regular(path)[:HEAD].decode("utf-8", errors="replace"))


def _belongs_to(path: Path, places: Set[tuple[Path, str]]) -> bool:
    """Whether `path` may be an output of a modular file with one of `places`."""
    # By the end of the name: what comes before it is the kind, of which there are several.
    return any(path.parent == folder and path.stem.endswith(f"_{name}") for folder, name in places)
