"""Small projects on disk, flattened in this process or by the command line in another one."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from patchgen.cli import main
from patchgen.compiler.flat import Flattened
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import Problem, catalogue
from patchgen.syntax.locate import make_environment
from tests.oracle import judge

REPOSITORY = Path(__file__).parents[2]
CONFIGURATION = '[tool.patchgen]\nsources = ["modular"]\noutputs = { modular = "generated" }\nflatten = ["toypack"]\n'
PARENT = """class ToyBlock:
    def __init__(self, n=3):
        self.n = n

    def run(self, x):
        return x + self.n
"""
MODULAR = """from toypack import modeling_toy as toy


class ToyBlock(toy.ToyBlock):
    def run(self, x):
        return super().run(x) * 2
"""


def put(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write `files`, text with exactly the line ends that it has."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))


def flat(
    folder: Path, files: Mapping[str, str | bytes], modular: str, search: Sequence[str] = ()
) -> Flattened:
    """The outputs of `modular`, with nothing to be found but `files`, the kept library and what lies in `search`."""
    put(folder, files)
    environment = make_environment(folder, search=[str(judge.LIBRARY), *search])
    return flatten(folder / modular, environment, Settings(flatten=("toypack",)))


def project(folder: Path, files: Mapping[str, str | bytes] = {}) -> Path:
    """A project with one variant that can be converted, and `files` over it."""
    usual = {
        "pyproject.toml": CONFIGURATION,
        "toypack/__init__.py": "",
        "toypack/modeling_toy.py": PARENT,
        "modular/modular_toy_fast.py": MODULAR,
    }
    put(folder, {**usual, **files})
    return folder


def run(
    folder: Path,
    *arguments: str,
    python: Sequence[str] = (),
    timeout: float = 60,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """`python -m patchgen ARGUMENTS` in `folder`, with few environment variables of ours.

    A copy of this process runs it, which has imported everything and knows what the installed
    transformers says; a new one where it is to begin otherwise.
    """
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder.parent),
        "PYTHONPATH": str(REPOSITORY),
        "PATCHGEN_CACHE_DIR": str(folder.parent / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
        **environment,
    }
    command = [sys.executable, *python, "-m", "patchgen", *arguments]
    if not python and not environment:
        _warm()
        return _run_in_a_copy(folder, command, env, timeout)
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL
    )
    return _completed(command, done.returncode, done.stdout, done.stderr)


@functools.cache
def _warm() -> None:
    """Import and read here, once, what each copy would import and read again."""
    with (
        tempfile.TemporaryDirectory() as place,
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        folder = project(Path(place) / "project")
        assert main(["convert", "--no-cache", str(folder / "modular")]) == 0
        assert main(["check", "--no-cache", str(folder / "modular")]) == 0


def _run_in_a_copy(
    folder: Path, command: list[str], env: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        child = os.fork()
        if not child:
            _become(folder, command, env, stdout.fileno(), stderr.fileno())
        end = time.monotonic() + timeout
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                raise subprocess.TimeoutExpired(command, timeout)
            time.sleep(0.005)
        texts = [os.pread(stream.fileno(), 1 << 24, 0) for stream in (stdout, stderr)]
    return _completed(command, os.waitstatus_to_exitcode(ended[1]), *texts)


def _become(
    folder: Path, command: list[str], env: Mapping[str, str], stdout: int, stderr: int
) -> NoReturn:
    """Be the process that `command` would start."""
    code = 1
    try:
        for number, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), stdout, stderr)):
            os.dup2(descriptor, number)
        sys.stdin, sys.stdout, sys.stderr = (
            open(n, "r" if n == 0 else "w", encoding="utf-8") for n in range(3)
        )
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(env)
        code = main(command[command.index("patchgen") + 1 :])
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _completed(command: list[str], code: int, *texts: bytes) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess(
        command, code, *(text.decode("utf-8", "replace") for text in texts)
    )


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below `folder` but those of caches."""
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and not p.is_symlink()]
    own = ("cache", "__pycache__")
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in files
        if not set(own) & set(p.relative_to(folder).parts)
    }


def assert_refused(
    done: subprocess.CompletedProcess[str], *parts: str, code: int = 1, lines: int | None = None
) -> None:
    """The exit status, every one of `parts` in what was printed, and no traceback."""
    printed = done.stdout + done.stderr
    assert "Traceback" not in printed and "internal error" not in printed, printed
    assert done.returncode == code, printed
    for part in parts:
        assert part in printed, f"{part!r} is not in:\n{printed}"
    if lines is not None:
        assert len(printed.strip().split("\n")) <= lines, printed


def assert_problem(
    problem: Problem, code: str, at: str, *, hint: str | None = "", what: str = ""
) -> None:
    """A refusal with this code at this place (`path:line:column`); `hint` and `what` are parts of its texts.

    `hint=None` says that none is needed.
    """
    # What a line of the modular file brings along stands at its origin.
    place = problem.origin if problem.is_carried else problem.at
    assert (problem.code, str(place)) == (code, at), problem
    assert problem.code in catalogue()
    assert what in problem.what, problem
    if hint is not None:
        assert problem.hint and hint in problem.hint, f"no hint: {problem}"
