"""Releases of transformers as folders: unpacked, as wheels, and downloaded before.

Nothing is imported.  A wheel's Python files are unpacked once, into the user's cache.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen import children, disk
from patchgen.syntax.errors import Location, PatchgenError

_VERSION = re.compile(r"""^__version__\s*=\s*["']([^"']+)["']""", re.MULTILINE)
SECONDS = 1800  # for a download
_WHEEL = re.compile(r"transformers-([^-]+)-.*\.whl")


@dataclass(frozen=True)
class Release:
    """A release and the folder that holds its package `transformers`.

    The folder of a wheel is made when asked for.
    """

    version: str
    folder: Path
    wheel: Path | None = None

    @property
    def order(self) -> tuple[int, ...]:
        """Sorts releases by age."""
        return order_of(self.version)

    def root(self) -> Path:
        """The folder, unpacked."""
        if self.wheel is not None and not (self.folder / "transformers" / "__init__.py").is_file():
            _unpack(self.wheel, self.folder)
        return self.folder


def order_of(version: str) -> tuple[int, ...]:
    """`version` as numbers."""
    return tuple(map(int, re.findall(r"\d+", version)))


def releases_in(folder: Path, cache: Path) -> tuple[Release, ...]:
    """The releases at `place`: itself, unpacked or as a wheel, or those in it; oldest first."""
    release = _one(folder, cache)
    if release is None and folder.is_dir():
        inner = [_one(path, cache) for path in sorted(folder.iterdir())]
        return tuple(sorted((r for r in inner if r is not None), key=lambda r: r.order))
    return (release,) if release is not None else ()


def _one(path: Path, cache: Path) -> Release | None:
    wheel = _WHEEL.fullmatch(path.name)
    if wheel is not None and path.is_file():
        return Release(wheel[1], cache / wheel[1], path)
    for folder in (path, path / "src"):
        package = folder / "transformers" / "__init__.py"
        if (folder / "transformers" / "models").is_dir():
            there = package.is_file()
            text = disk.text_of(package) if there else ""
            version = _VERSION.search(text)
            return Release(version[1] if version else path.name, folder)
    return None


def _unpack(wheel: Path, folder: Path) -> None:
    """The Python files of `wheel` in `folder`, all or none."""
    try:
        with (
            disk.new_folder(folder) as new,
            disk.open_file(wheel) as file,
            zipfile.ZipFile(file) as archive,
        ):
            # Nothing is left outside the folder, whatever the names in the archive are.
            archive.extractall(new, [n for n in archive.namelist() if n.endswith(".py")])
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        what = f"is no wheel that can be read: {error}"
        raise PatchgenError("PG807", Location(str(wheel)), what, "download it again") from error


def chosen(
    asked: Sequence[str], available: Iterable[Release], cache: Path, *, download: bool
) -> tuple[Release, ...]:
    """The releases that `asked` names: versions, `A..B`, folders and wheels; oldest first.

    Raises PatchgenError PG807 for one that is neither known nor to be downloaded.
    """
    there = {release.version: release for release in available}
    picked: dict[str, Release] = {}
    for text in asked:
        first, dots, last = text.partition("..")
        low = order_of(first)
        high = order_of(last)
        if Path(text).exists():
            named = [*releases_in(Path(text).resolve(), cache)]
        elif text in there:
            named = [there[text]]
        elif dots:
            # `4.38` means all of 4.38, its last patch included.
            fits = [r for r in there.values() if low <= r.order]
            named = [r for r in fits if r.order[: len(high)] <= high]
        else:
            named = [*releases_in(_downloaded(text, cache), cache)] if download else []
        if not named and not Path(text).exists():
            have = ", ".join(sorted(there, key=order_of)) or "none"
            more = "" if dots else ", or allow --download"
            hint = f"known are {have}; name a folder or a wheel{more}"
            what = "is no release of transformers that is here"
            raise PatchgenError("PG807", Location(text), what, hint)
        picked |= {release.version: release for release in named}
    return tuple(sorted(picked.values(), key=lambda release: release.order))


def _downloaded(version: str, cache: Path) -> Path:
    """The wheel of a release, from the index that pip is set up for."""
    disk.make_private(cache)
    command = children.pip("download", "--quiet", "--no-deps", "--only-binary=:all:")
    command += [f"transformers=={version}", "--dest", "."]
    done = children.run(command, cache, SECONDS)
    wheel = next(cache.glob(f"transformers-{version}-*.whl"), None)
    if wheel is None:
        why = (done.stderr.strip().splitlines() or ["pip gave no wheel"])[-1]
        what = f"could not be downloaded: {why}"
        hint = "name a release that exists; without a network, name the folder of one, or a wheel"
        raise PatchgenError("PG807", Location(version), what, hint)
    return wheel
