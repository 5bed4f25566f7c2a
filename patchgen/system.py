"""What systems differ in.  Each function has another way where the system lacks the first.

macOS has no /proc and does not say which processors a process may use.  Windows has, besides, no
fork, no timer of the processor's time, and programs end in ".exe".
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

_T = TypeVar("_T")
PROC = Path("/proc")
LOOK = 0.25  # seconds of the processor between two looks at what a block took
TICK = 0.05  # seconds between two looks at the time that a block took, without a timer


def processors() -> int:
    """How many processors this process may use, or how many there are."""
    # A container or `taskset` may allow fewer processors than the machine has.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def program_beside_python(name: str) -> Path | None:
    """The program `name` that was installed with this Python's packages."""
    for suffix in ("", ".exe"):
        path = Path(sys.executable).with_name(name + suffix)
        if path.is_file():
            return path
    return None


# Processes


def can_fork() -> bool:
    """Whether the system can fork processes; else the work is done in one."""
    return hasattr(os, "fork")


def run_in_workers(
    work: Callable[[Sequence[Path]], _T], parts: Sequence[Sequence[Path]]
) -> list[_T | None]:
    """Do `work` on every part, the first of them in this process.

    The result is None for a part whose process died.
    """
    # Started first, so that all parts are worked on at the same time.
    waiting = [_fork(work, part) for part in parts[1:]]
    results: list[_T | None] = [work(parts[0])] if parts else []
    return [*results, *(_result(pid, pipe) for pid, pipe in waiting)]


def run_in_process(work: Callable[[Sequence[Path]], _T], part: Sequence[Path]) -> _T | None:
    """Do `work` in a process of its own; None if that dies."""
    result: _T | None = _result(*_fork(work, part))
    return result


def _fork(work: Callable[[Sequence[Path]], _T], part: Sequence[Path]) -> tuple[int, int]:
    """Start a process for `part`: its number, and the pipe for its result.

    It uses no locks and no streams of this one, so that threads (a progress bar) do no harm.
    """
    import pickle

    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(pickle.dumps(work(part), pickle.HIGHEST_PROTOCOL))
        code = 0
    finally:
        os._exit(code)  # Nothing of the parent's is flushed, closed or taken down by the child.


def _result(pid: int, pipe: int) -> Any:
    """What a process has sent; None where it died."""
    import pickle

    # First the data: a child whose pipe is full waits for a reader, and would never end.
    with os.fdopen(pipe, "rb") as stream:
        data = stream.read()
    # Without this, the child would stay in the system's table.
    _, status = os.waitpid(pid, 0)
    return None if status else pickle.loads(data)


# Time and memory


@contextlib.contextmanager
def limited(seconds: float, error: type[Exception], megabytes: float = math.inf) -> Iterator[None]:
    """Raise `error` in the block after so much of the processor's time, or more memory.

    It is raised between two steps of Python, in the main thread only.  Only Linux tells how much
    memory the process holds.
    """
    if math.isinf(seconds) or threading.current_thread() is not threading.main_thread():
        yield
        return
    if not hasattr(signal, "setitimer"):
        with _watched(seconds, error):
            yield
        return

    end = time.process_time() + seconds
    had = resident_of(os.getpid())

    def stop(number: int, frame: FrameType | None) -> None:
        if time.process_time() >= end:
            raise error(f"took more than {seconds:.0f} seconds")
        if resident_of(os.getpid()) - had > megabytes * 2**20:
            raise error(f"took more than {megabytes:.0f} MB of memory")

    # In a block of another limit, that one goes on behind this one.
    before = signal.signal(signal.SIGPROF, stop)
    outer = signal.setitimer(signal.ITIMER_PROF, min(seconds, LOOK), LOOK)
    try:
        yield
    finally:
        signal.signal(signal.SIGPROF, before)
        signal.setitimer(signal.ITIMER_PROF, *outer)


@contextlib.contextmanager
def _watched(seconds: float, error: type[Exception]) -> Iterator[None]:
    """The same without a timer: a thread looks at the time and raises `error` in this one."""
    import ctypes

    thread = ctypes.c_ulong(threading.get_ident())
    end = time.process_time() + seconds
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(TICK):
            if time.process_time() > end:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(error))
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        # What was raised at the very end does not reach the code behind the block.
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, None)


def available_memory() -> int | None:
    """The bytes that the system can still give; None where neither it nor psutil tells."""
    # Free memory alone leaves out the file cache, which the system gives up on demand.
    kilobytes = _entry("meminfo", "MemAvailable:")
    if kilobytes is not None:
        return kilobytes * 1024
    try:
        import psutil  # comes with accelerate
    except ImportError:
        return None
    return int(psutil.virtual_memory().available)


def reset_peak_resident() -> None:
    """Start a new measurement of the peak, where the system can."""
    # "5" resets VmHWM: see proc(5).
    with contextlib.suppress(OSError):
        (PROC / "self/clear_refs").write_bytes(b"5")


def peak_resident() -> int:
    """The most bytes of memory that this process held, since its start or the last reset."""
    kilobytes = _entry("self/status", "VmHWM:")
    if kilobytes is not None:
        return kilobytes * 1024
    try:
        import resource
    except ImportError:
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    peak = int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return peak if sys.platform == "darwin" else peak * 1024


def resident_of(pid: int) -> int:
    """The bytes of memory that another process holds; 0 where nobody tells."""
    kilobytes = _entry(f"{pid}/status", "VmRSS:")
    if kilobytes is not None:
        return kilobytes * 1024
    return _by_psutil(pid, lambda process: int(process.memory_info().rss)) or 0


def spent_by(pid: int) -> float | None:
    """Seconds of the processor that another process has taken; None where nobody tells."""
    try:
        stat = (PROC / f"{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return _by_psutil(pid, lambda process: float(sum(process.cpu_times()[:2])))
    behind_name = stat.rpartition(")")[2].split()
    return (int(behind_name[11]) + int(behind_name[12])) / os.sysconf("SC_CLK_TCK")


def _by_psutil(pid: int, ask: Callable[[Any], _T]) -> _T | None:
    try:
        import psutil  # comes with accelerate
    except ImportError:
        return None
    try:
        return ask(psutil.Process(pid))
    except psutil.Error:  # it has ended
        return None


def _entry(name: str, key: str) -> int | None:
    """The number behind `key` in a file of /proc."""
    try:
        lines = (PROC / name).read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith(key)), None)
