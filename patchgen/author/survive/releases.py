"""Find the releases of a range; pip may be asked for them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from patchgen.author.adopt.releases import Release, chosen, order_of
from patchgen.syntax.errors import Location, PatchgenError

_LIST = re.compile(r"^Available versions: (.*)$", re.MULTILINE)


def wanted_releases(
    asked: Sequence[str], known: Sequence[Release], cache: Path, *, download: bool
) -> tuple[Release, ...]:
    """The releases that `asked` names, all that are known by default; oldest first.

    With `download`, a range means every release that the package index has.  Raises PatchgenError
    PG807 for one that is neither known nor to be downloaded.
    """
    if not asked:
        newest = {release.version: release for release in reversed(known)}
        return tuple(sorted(newest.values(), key=lambda release: release.order))
    names: list[str] = []
    for text in asked:
        first, dots, last = text.partition("..")
        is_range = dots and not Path(text).exists()
        names += _between(first, last) if download and is_range else [text]
    return chosen(names, list(reversed(known)), cache, download=download)


def _between(first: str, last: str) -> list[str]:
    """The releases from `first` to `last` that the index has; `5.4` means all of 5.4."""
    low, high = order_of(first), order_of(last)
    fits = [v for v in _listed() if low <= order_of(v) and order_of(v)[: len(high)] <= high]
    if not fits:
        what = "names no release of transformers that the package index has"
        raise PatchgenError("PG807", Location(f"{first}..{last}"), what)
    return fits


def _listed() -> list[str]:
    command = [sys.executable, "-m", "pip", "index", "versions", "transformers"]
    done = subprocess.run(
        [*command, "--disable-pip-version-check"], capture_output=True, text=True, check=False
    )
    found = _LIST.search(done.stdout)
    if found is None:
        why = (done.stderr.strip().splitlines() or ["pip listed none"])[-1]
        hint = "name a folder of wheels with --releases-dir"
        raise PatchgenError("PG807", Location("pip"), f"cannot list the releases: {why}", hint)
    return [version.strip() for version in found[1].split(",")]
