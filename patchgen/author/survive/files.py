"""The Python files of one release of transformers, read from a wheel or a folder when asked for."""

from __future__ import annotations

import functools
import hashlib
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from patchgen.author.adopt.releases import Release
from patchgen.syntax.regular import read_regular

PACKAGE = "transformers"


@dataclass(frozen=True)
class ReleaseFiles:
    """A release by the names of its files, such as `transformers/models/llama/modeling_llama.py`.

    Nothing is unpacked: a wheel of 11 MB holds 70 MB of text.
    `replaced` are texts that take the place of those of the release.
    """

    version: str
    digest: str
    names: frozenset[str]
    read: Callable[[str], bytes] = field(repr=False, compare=False)

    def name_of(self, module: str) -> str:
        """The file of a module; empty where the release has none."""
        base = module.replace(".", "/")
        return next((n for n in (f"{base}/__init__.py", f"{base}.py") if n in self.names), "")

    def digest_of(self, name: str) -> str:
        """The sha256 of a file; empty where the release has none."""
        return hashlib.sha256(self.read(name)).hexdigest() if name in self.names else ""

    def with_file(self, name: str, data: bytes | None) -> ReleaseFiles:
        """The release with another text for one file, or without that file."""
        names = self.names - {name} if data is None else self.names | {name}

        def read(wanted: str) -> bytes:
            return data if wanted == name and data is not None else self.read(wanted)

        return ReleaseFiles(self.version, f"{self.digest}, another {name}", names, read)


def open_release(release: Release) -> ReleaseFiles:
    """The files of a release.

    Raises OSError and zipfile.BadZipFile for what cannot be read.
    """
    if release.wheel is not None:
        return _of_wheel(release.version, release.wheel)
    return _of_folder(release.version, release.folder)


def _of_wheel(version: str, wheel: Path) -> ReleaseFiles:
    archive = zipfile.ZipFile(wheel)
    infos = {info.filename: info for info in archive.infolist() if _is_ours(info.filename)}
    # The checksums in the archive's table stand for its files; nothing is unpacked to know them.
    whole = hashlib.sha256()
    for name, info in sorted(infos.items()):
        whole.update(f"{name} {info.CRC} {info.file_size}\n".encode())
    read = functools.cache(archive.read)
    return ReleaseFiles(version, whole.hexdigest(), frozenset(infos), read)


def _of_folder(version: str, folder: Path) -> ReleaseFiles:
    names = frozenset(_names_in(folder))

    @functools.cache
    def read(name: str) -> bytes:
        return read_regular(folder / name)

    whole = hashlib.sha256()
    for name in sorted(names):
        whole.update(name.encode() + b"\0" + read(name) + b"\0")
    return ReleaseFiles(version, whole.hexdigest(), names, read)


def _names_in(folder: Path) -> Iterator[str]:
    for path in sorted((folder / PACKAGE).rglob("*.py")):
        yield path.relative_to(folder).as_posix()


def _is_ours(name: str) -> bool:
    return name.startswith(f"{PACKAGE}/") and name.endswith(".py")
