"""Run other programs, so that nothing that lies in a project takes part.

    run(python("patchgen.unpatching.equal", folder), folder, 600)

Python starts isolated: neither the current folder nor PYTHONPATH is searched.  Each program has a
folder to run in and a limit of time, and ends with patchgen, even where that is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from patchgen.syntax.errors import Location, PatchgenError

HOME = Path(__file__).parents[1]  # the folder that patchgen is imported from
PIPE = subprocess.PIPE
Ended = subprocess.CompletedProcess[str]
_SHELL = Path("/bin/sh")
# The pipe ends with patchgen, however that ends.  Then the whole group of processes is killed: the
# program, and what it has started.
_GUARD = """
{ read -r _ <"/dev/fd/$0"; kill -KILL 0; } >/dev/null 2>&1 &
"$@"
code=$?
exec 2>/dev/null
kill -KILL $!
wait $!
exit $code
"""
# patchgen's folder comes last: nothing in it takes the place of another module.
_RUN_MODULE = """
import os, runpy, sys
first, last, module = sys.argv[1:4]
sys.path[:] = [*filter(None, first.split(os.pathsep)), *sys.path, last]
del sys.argv[1:4]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def python(
    module: str,
    *words: str | Path,
    first: Sequence[str] = (),
    program: str = "",
    options: Sequence[str] = (),
) -> list[str]:
    """The command that runs a module of patchgen, which imports from the folders `first` first."""
    start = [program or sys.executable, "-I", *options, "-c", _RUN_MODULE]
    return [*start, os.pathsep.join(first), str(HOME), module, *map(str, words)]


def pip(*words: str | Path) -> list[str]:
    """The command that runs the pip of this Python."""
    return [sys.executable, "-I", "-m", "pip", *map(str, words)]


@contextlib.contextmanager
def safe_workers() -> Iterator[None]:
    """Keep processes that multiprocessing starts in the block from searching the current folder.

    Nor do they run the script again that called us: they need nothing of it.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    of_script = vars(sys.modules["__main__"])
    script = of_script.pop("__file__", None)
    try:
        yield
    finally:
        if script is not None:
            of_script["__file__"] = script
        del os.environ["PYTHONSAFEPATH"]
        if before is not None:
            os.environ["PYTHONSAFEPATH"] = before


def run(
    command: Sequence[str],
    folder: str | Path | None,
    seconds: float,
    environment: Mapping[str, str] | None = None,
    **streams: Any,
) -> Ended:
    """Run `command` in `folder`, by default with its output as texts.

    Raises PatchgenError PG915 where it takes longer.
    """
    streams = streams or {"stdout": PIPE, "stderr": PIPE}
    with started(command, folder, environment, **streams) as child:
        try:
            output, errors = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as error:
            what = f"took more than {seconds:,.0f} seconds, and was ended"
            raise PatchgenError("PG915", Location(Path(command[0]).name), what) from error
    return subprocess.CompletedProcess(command, child.returncode, output, errors)


@contextlib.contextmanager
def started(
    command: Sequence[str],
    folder: str | Path | None,
    environment: Mapping[str, str] | None = None,
    **streams: Any,
) -> Iterator[subprocess.Popen[str]]:
    """The running `command`, which ends with the block."""
    reading, writing = _pipe()
    with open(writing, "wb"):
        with open(reading, "rb"):
            # Windows has no such shell: there it ends with the block, and not with patchgen.
            guard = [str(_SHELL), "-c", _GUARD, str(reading)] if _SHELL.exists() else []
            child = subprocess.Popen(
                [*guard, *command],
                cwd=folder,
                env=environment,
                text=True,
                encoding="utf-8",
                errors="replace",
                pass_fds=[reading] if guard else [],
                start_new_session=bool(guard),
                **streams,
            )
        with child:
            try:
                yield child
            finally:
                end(child)


def _pipe() -> tuple[int, int]:
    """A pipe, which takes the place of no stream that patchgen was started without."""
    reading, writing = os.pipe()
    if not _SHELL.exists():
        return reading, writing
    import fcntl

    above = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3) for number in (reading, writing)]
    os.close(reading)
    os.close(writing)
    return above[0], above[1]


def end(child: subprocess.Popen[str]) -> None:
    """End a program and all that it has started, if it still runs."""
    if child.poll() is None and _SHELL.exists():
        with contextlib.suppress(OSError):  # it ended just now
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()
