"""Modular files of other releases of transformers convert without a crash, and most of them exactly.

The rules are those of 5.23.0 and 5.24.0; what older converters did otherwise is theirs.  Wheels are fetched, never imported.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from patchgen.syntax.locate import make_environment
from patchgen.upstream.repository import flatten_repository
from tests.corpus.corpus import generated_in, modulars_in

# Release, modular files, generated files, and how many of those come out byte for byte; the last may only grow.  (It
# shrank by one when 5.24.0 came: since then, `@deprecate_kwarg` alone keeps the other decorators of the parent.)
RELEASES = [
    ("5.24.0", 339, 689, 689),
    ("5.17.0", 294, 585, 575),
    ("5.10.1", 255, 481, 464),
    ("4.57.6", 132, 214, 31),
]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("release", "modulars", "generated", "equal"), RELEASES)
def test_another_release(
    release: str, modulars: int, generated: int, equal: int, tmp_path: Path
) -> None:
    package = fetch(release, tmp_path)
    paths, wheel = modulars_in(package), generated_in(package)
    made: dict[str, bytes] = {}
    for path, flattened in zip(
        paths, flatten_repository(paths, make_environment(tmp_path), jobs=2), strict=True
    ):
        assert all(
            problem.code.startswith("PG") and problem.at.line for problem in flattened.problems
        )
        made |= {
            f"models/{path.parent.name}/{file.name}": file.text.encode() for file in flattened.files
        }
    assert (len(paths), len(wheel)) == (modulars, generated)
    assert sum(made.get(name) == data for name, data in wheel.items()) >= equal


def fetch(release: str, folder: Path) -> Path:
    """The package of `release`, unpacked below `folder`."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "-d",
        folder,
        f"transformers=={release}",
    ]
    if subprocess.run(command, check=False).returncode:
        pytest.skip(f"transformers {release} cannot be fetched here")
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder)
    return folder / "transformers"
