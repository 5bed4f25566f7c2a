"""Hold the texts that a run works with.

These are files on disk, and outputs that were made just before in their place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from patchgen.syntax.text import decode, read_bytes


@dataclass(frozen=True)
class Files:
    """A memory of files; `fresh` are the texts of outputs that differ from what is on disk.

    `display_path` tells how messages print a path.
    """

    fresh: dict[Path, str] = field(default_factory=dict)
    _known: dict[Path, tuple[str, str] | None] = field(default_factory=dict, repr=False)
    _asked: dict[Path, str] = field(default_factory=dict, repr=False)

    def text(self, path: Path) -> str | None:
        """The text of the file at `path`, fresh if there is one; None where there is no file.

        Raises PatchgenError PG001 to PG004 for a file that cannot be read.
        """
        found = self._fresh(path) or self._on_disk(path)
        # A missing file is recorded too: should it come into being, the result may be another one.
        self._asked[path] = found[1] if found else ""
        return found[0] if found else None

    def on_disk(self, path: Path) -> str | None:
        """The text of the file as it is on disk; None where there is none."""
        found = self._on_disk(path)
        return found[0] if found else None

    @contextmanager
    def asked(self) -> Iterator[Mapping[Path, str]]:
        """The files whose texts are read inside the `with` block, with the sha256 of their bytes.

        The digest is empty for missing files.
        """
        self._asked.clear()
        yield self._asked

    def _fresh(self, path: Path) -> tuple[str, str] | None:
        text = self.fresh.get(path)
        return None if text is None else (text, hashlib.sha256(text.encode()).hexdigest())

    def _on_disk(self, path: Path) -> tuple[str, str] | None:
        """The text and the digest of a file, read once; None where there is none."""
        if path not in self._known:
            # Also what is missing is remembered: most files are asked for many times.
            self._known[path] = None
            if path.exists():
                data = read_bytes(path, path.as_posix())
                # Whoever wrote these files is trusted with the characters in them: their copies are
                # what is wanted.
                text = decode(data, path.as_posix(), allow_bidi=True)
                self._known[path] = text, hashlib.sha256(data).hexdigest()
        return self._known[path]
