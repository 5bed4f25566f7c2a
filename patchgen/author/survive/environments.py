"""`patchgen verify` on a release that is not the installed one, in an environment of its own.

The environment holds that release; all else, such as torch, is taken from the running Python where
the release accepts it.  The project is copied, so that its outputs stay.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchgen.author.adopt.releases import Release
from patchgen.project.files import Modular
from patchgen.syntax.errors import Location, PatchgenError

_READY = "ready"
_COPIED = frozenset({".py", ".toml", ".lock"})
_LEFT_OUT = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "build", "dist"})


@dataclass(frozen=True)
class Verified:
    """The output of `patchgen verify` for some variants on a release; `code` is its exit code."""

    version: str
    names: tuple[str, ...]
    code: int
    text: str


def verify_on(
    release: Release, modulars: Sequence[Modular], home: Path, environments: Path
) -> Verified:
    """Convert and verify variants on a release.

    Raises PatchgenError PG807 where its environment cannot be made.
    """
    python = _environment(release, environments)
    names = tuple(modular.path.stem.removeprefix("modular_") for modular in modulars)
    with tempfile.TemporaryDirectory(prefix="patchgen-") as folder:
        copy = Path(folder, home.name)
        _copy_project(home, copy)
        paths = [modular.display_path for modular in modulars]
        made = _run(python, copy, "convert", "--quiet", "--no-cache", *paths)
        if made.returncode:
            return Verified(release.version, names, 1, made.stdout + made.stderr)
        done = _run(python, copy, "verify", "--mutants", "none", *names)
    return Verified(release.version, names, done.returncode, done.stdout + done.stderr)


def _environment(release: Release, environments: Path) -> Path:
    """The Python of the release's environment, which is made where there is none."""
    folder = environments / f"{release.version}-{sys.version_info[0]}.{sys.version_info[1]}"
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if (folder / _READY).is_file():
        return python
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
    venv.create(folder, with_pip=True, symlinks=os.name != "nt")
    _inherit(python)
    wanted = str(release.wheel or f"transformers=={release.version}")
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*command, wanted], capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        what = f"transformers {release.version} cannot be installed: {why}"
        raise PatchgenError("PG807", Location(str(folder)), what)
    (folder / _READY).touch()
    return python


def _inherit(python: Path) -> None:
    """Let an environment find what the running Python has, behind what it has itself."""
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([str(python), "-c", ask], capture_output=True, text=True, check=True)
    folders = [Path(entry or ".").resolve() for entry in sys.path]
    packages = [str(folder) for folder in folders if folder.name == "site-packages"]
    own = str(Path(__file__).parents[3])
    text = "\n".join(dict.fromkeys([*packages, own])) + "\n"
    Path(done.stdout.strip(), "patchgen-inherited.pth").write_text(text, encoding="utf-8")


def _copy_project(home: Path, copy: Path) -> None:
    """The Python files and the configuration of a project."""
    for folder, inner, names in os.walk(home):
        inner[:] = [name for name in inner if not name.startswith(".") and name not in _LEFT_OUT]
        place = copy / Path(folder).relative_to(home)
        place.mkdir(parents=True, exist_ok=True)
        for name in names:
            if Path(name).suffix in _COPIED:
                shutil.copyfile(Path(folder, name), place / name)


def _run(python: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-m", "patchgen", *words]
    # The formatter is a program, and lies beside the running Python.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return subprocess.run(
        command,
        cwd=home,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
