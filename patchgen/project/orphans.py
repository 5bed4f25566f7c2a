"""Find what is there and should not be: orphans, and what takes the place of an output.

The lock is the list of what has to be there, whatever the configuration says by now: a run on the
whole project looks at every record.  Whatever has patchgen's banner in a folder of outputs has to
come from a modular file too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path

from patchgen import disk
from patchgen.compiler.flat import is_generated
from patchgen.project.files import SKIPPED, Modular, Project, Selection, discover, is_below
from patchgen.project.lock import Record, shorten
from patchgen.project.outcome import Outcome, digest_of_file
from patchgen.project.places import LOCK
from patchgen.project.verdict import NOT_OURS, Status, Verdict
from patchgen.project.write import Change
from patchgen.syntax.errors import Location, Problem

TOP = 1 << 16  # bytes: the comments at the top of a file are among them
_EXTENSIONS = (".so", ".pyd")
_Places = Set[tuple[Path, str]]  # folders of outputs, with how the names of the outputs end


def find_orphans(
    project: Project,
    selection: Selection,
    outcomes: Sequence[Outcome],
    records: Mapping[Path, Record],
) -> tuple[Verdict, ...]:
    """A verdict on every orphan among the records and in the folders of the run."""
    expected: set[Path] = set()
    for outcome in outcomes:
        expected.update(path for path, _ in outcome.files)
    # A file that fails today may give its outputs again tomorrow.
    failed = _places(outcome.modular for outcome in outcomes if outcome.problems)

    def is_orphan(path: Path) -> bool:
        return path not in expected and not _belongs_to(path, failed)

    # Few records are orphans; whether the run is about them takes longer to say.
    recorded = _in_scope(project, list(filter(is_orphan, records)), records, selection)
    paths = set(expected)
    for path in recorded:
        paths.update((path.with_suffix(".py"), path.with_suffix(".diff")))
    # A file may have lost its record, may have been moved away from it, or lost its diff only.
    diffs = {path.with_suffix(".diff") for path in expected} - paths
    loose = {*_generated_files(selection.folders, paths), *filter(is_our_diff, diffs)}
    # An output stands for its diff too.
    beside = {path.with_suffix(".diff") for path in loose if path.suffix == ".py"}
    unrecorded = sorted(filter(is_orphan, loose - beside))
    # Looking at all other modular files takes time.
    if not recorded and not unrecorded:
        return ()
    others = _places_of_others(project, selection)
    verdicts = []
    for path in recorded:
        if not _belongs_to(path, others):
            verdicts.append(_recorded_orphan(project, path, records[path], selection))
    for path in unrecorded:
        if not _belongs_to(path, others):
            is_output = path.with_suffix(".py") in expected
            verdicts.append(_loose_orphan(project, path, selection, is_output=is_output))
    return tuple(verdicts)


def _places(modulars: Iterable[Modular]) -> _Places:
    return {(m.folder, m.path.stem.removeprefix("modular_")) for m in modulars}


def _belongs_to(path: Path, places: _Places) -> bool:
    """Whether `path` may be an output of a modular file with one of `places`."""
    # By the end of the name: what comes before it is the kind, of which there are several.
    return any(path.parent == folder and path.stem.endswith(f"_{name}") for folder, name in places)


def _places_of_others(project: Project, selection: Selection) -> _Places:
    """The places of the modular files of the project that the run does not include.

    Those without `--out` count too.
    """
    places = _places(discover(project).modulars)
    places |= _places(discover(replace(project, out=None)).modulars)
    # Of the files of the run, it is known what they give.
    return places - _places(selection.modulars)


def _in_scope(
    project: Project,
    paths: Sequence[Path],
    records: Mapping[Path, Record],
    selection: Selection,
) -> list[Path]:
    """Those of the recorded outputs at `paths` that the run is about.

    That is every one of the project where the whole of it is looked at.  Else the folder of an
    output or its modular file decides.
    """
    # With sources that are not there, nothing is known of what they give.
    is_whole = selection.whole and project.out is None and not selection.problems
    recorded = {modular.display_path for modular in selection.modulars if modular.recorded}
    # With `--out`, outputs that stand elsewhere are not what the run is about.
    places = {(modular.display_path, modular.folder) for modular in selection.modulars}

    def is_of_run(path: Path) -> bool:
        if is_whole and is_below(path, project.home):
            return True
        if any(is_below(path, folder) for folder in selection.folders):
            return True
        # A record takes time to read: first, what the path alone tells.
        if not recorded and all(path.parent != folder for _, folder in places):
            return False
        modular = records[path].modular
        return modular in recorded or (modular, path.parent) in places

    return list(filter(is_of_run, paths))


def _recorded_orphan(
    project: Project, output: Path, record: Record, selection: Selection
) -> Verdict:
    """The verdict on a recorded output.

    Its files may be removed unless one of them was edited.
    """
    files = [path for path in (output, output.with_suffix(".diff")) if path.exists()]
    recorded = record.digest, record.diff_digest
    untouched = all(shorten(digest_of_file(path)) in recorded for path in files)
    modular = project.home / record.modular
    left_out = modular.exists() and all(modular != other.path for other in selection.modulars)
    if left_out:
        why = [f"{record.modular} is not among the sources of the configuration"]
    else:
        why = [f"{record.modular} {'gives it no more' if modular.exists() else 'is gone'}"]
    if not untouched:
        why.append("it was edited by hand")
    # A record may come from anybody.
    is_ours = all(_is_output(path, selection) for path in files)
    if not is_ours:
        why.append(NOT_OURS)
    if not files:
        why.append(f"only {LOCK} still names it")
    # What somebody edited is not removed, nor what a change of `sources` would give again; without
    # files, the record alone goes.
    is_removed = untouched and is_ours and not left_out
    fixes = tuple(Change(path, None) for path in files or [output]) if is_removed else ()
    return Verdict(
        project.display_path(output), record.modular, Status.ORPHANED, tuple(why), fixes=fixes
    )


def _is_output(path: Path, selection: Selection) -> bool:
    """Whether patchgen says that it wrote the file, and it stands where the run has outputs."""
    folders = {*selection.folders, *(modular.folder for modular in selection.modulars)}
    place = path.parent.resolve()
    is_marked = is_our_diff(path) if path.suffix == ".diff" else _has_banner(path)
    return is_marked and any(is_below(place, folder) for folder in folders)


def _loose_orphan(
    project: Project, path: Path, selection: Selection, *, is_output: bool
) -> Verdict:
    """The verdict on a generated file without a record.

    It may have been moved from another folder.
    """
    display_path = project.display_path(path)
    if path.suffix == ".diff" and is_output:
        why = (f"{path.stem}.py has no diff now",)
        return Verdict(display_path, "", Status.ORPHANED, why, fixes=(Change(path, None),))
    for modular in selection.modulars:
        # As if the modular file's outputs stood in the folder of this one.
        if _belongs_to(path, _places([replace(modular, folder=path.parent)])):
            proper = project.display_path(modular.folder / path.name)
            why = (f"{modular.display_path} gives {proper}",)
            return Verdict(display_path, "", Status.ORPHANED, why)
    return Verdict(display_path, "", Status.ORPHANED)


def _generated_files(folders: Iterable[Path], paths: Set[Path]) -> Iterator[Path]:
    """The files below `folders` that patchgen wrote, or copies of them, but for `known` ones."""
    for top in folders:
        for folder, inner, names in os.walk(top):
            inner[:] = [name for name in inner if name not in SKIPPED]
            for name in names:
                # `.PY` is a module on some systems, and `.pyi` is what type checkers read.
                if not name.lower().endswith((".py", ".pyi", ".diff")):
                    continue
                path = Path(folder, name)
                if path in paths or not path.is_file():
                    continue
                if is_our_diff(path) if path.suffix == ".diff" else _has_banner(path):
                    yield path


def _has_banner(path: Path) -> bool:
    return path.is_file() and has_banner(disk.read_start(path, TOP))


def has_banner(data: bytes) -> bool:
    """Whether the comments at the top of a file say that patchgen or transformers wrote it."""
    return is_generated(data.decode("utf-8", errors="replace"))


def is_our_diff(path: Path) -> bool:
    """Whether there is a diff at `path`, of the output that stands beside it."""
    if path.suffix != ".diff" or not path.is_file():
        return False
    lines = disk.read_start(path, TOP).split(b"\n", 2)
    return lines[0].startswith(b"--- ") and lines[1:2] == [f"+++ {path.stem}.py".encode()]


# What Python imports in the place of an output


def find_shadows(project: Project, outcomes: Sequence[Outcome]) -> Iterator[Problem]:
    """What stands beside the outputs of the project and is imported under their names."""
    stems: dict[Path, set[str]] = {}
    for outcome in outcomes:
        modular = outcome.modular
        if modular.recorded:
            names = {output.name.removesuffix(".py") for output in outcome.outputs}
            stems.setdefault(modular.folder, set()).update(names)
    packages: set[Path] = set()
    for folder, modules in stems.items():
        packages.update((folder, *folder.parents))
        for stem, ending in _entries(folder):
            path = folder / f"{stem}{ending}"
            is_first = ending.endswith(_EXTENSIONS) or (not ending and _is_package(path))
            if stem in modules and is_first:
                yield _shadow(project, path, f"{stem}.py")
        cache = folder / "__pycache__"
        for stem, ending in _entries(cache):
            path = cache / f"{stem}{ending}"
            if stem in modules and ending.endswith(".pyc") and _is_taken_by_hash(path):
                yield _shadow(project, path, f"{stem}.py")
    # Hundreds of folders may stand in one: that one is looked at once.
    beside: dict[Path, set[str]] = {}
    for package in packages:
        parent = package.parent
        # A folder without `__init__.py` comes after every module of its name.
        if parent.is_relative_to(project.home) and not _is_package(package):
            beside.setdefault(parent, set()).add(package.name)
    for folder, names in beside.items():
        for stem, ending in _entries(folder):
            if stem in names and ending.endswith((".py", ".pyc", *_EXTENSIONS)):
                path = folder / f"{stem}{ending}"
                yield _shadow(project, path, f"the folder {stem}")


def _entries(folder: Path) -> list[tuple[str, str]]:
    """The names in `folder`, without endings, and their endings."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    entries = []
    for name in names:
        stem, dot, ending = name.partition(".")
        entries.append((stem, dot + ending))
    return entries


def _is_package(folder: Path) -> bool:
    return any(stem == "__init__" for stem, _ in _entries(folder))


def _is_taken_by_hash(path: Path) -> bool:
    """Whether Python takes the code of a `.pyc` by a hash in it, or without any comparison.

    Python's own are compared with the time and size of the file.
    """
    try:
        return bool(disk.read_start(path, 5)[4] & 1)
    except (OSError, IndexError):
        return False


def _shadow(project: Project, path: Path, hidden: str) -> Problem:
    what = f"is what Python imports in the place of {hidden}"
    return Problem(Location(project.display_path(path)), "PG513", what, "delete it, or rename it")
