"""A child process that gets its work on stdin and answers on stdout with one line of JSON each.

The parent reads the answers as they come.  Between them it gets ticks, at which it can check the
time and the memory that the child has taken.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

TICK = 0.2  # seconds between two looks at a silent process
_KEPT = 20  # lines of stderr


class Child:
    """One process."""

    def __init__(
        self, command: Sequence[str], work: str, env: Mapping[str, str], *, aside: bool = False
    ) -> None:
        """Start it.  `aside`: an interrupt from the keyboard does not reach it."""
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false", **env},
            start_new_session=aside,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._words: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()
        self._complaints = threading.Thread(target=self._hear, daemon=True)
        self._complaints.start()
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(work)
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it died at once: the end of its answers says so

    def answers(self) -> Iterator[dict[str, Any] | None]:
        """Each answer, None at each tick, and last a "fault" if the process died or wrote garbage.

        The process is killed when the iteration ends.
        """
        try:
            while True:
                try:
                    line = self._lines.get(timeout=TICK)
                except queue.Empty:
                    yield None
                    continue
                if line is None:
                    yield {"fault": f"the process ended with code {self.process.wait()}"}
                    return
                if not line.endswith("\n"):
                    continue  # it was ended in the middle of an answer: its end says so
                try:
                    answer = json.loads(line)
                except ValueError:
                    yield {"fault": f"the process said what is no answer: {line.strip()[:100]}"}
                    return
                yield answer
        finally:
            self.end()

    def end(self) -> None:
        """Kill the process and wait for it."""
        self.process.kill()
        self.process.wait()

    def last_words(self) -> str:
        """The last line that it wrote on stderr, as a suffix for a fault."""
        self._complaints.join(timeout=2)
        last = next((word.strip() for word in reversed(self._words) if word.strip()), "")
        return f": {last[:300]}" if last else ""

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _hear(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._words = [*self._words[-_KEPT:], line]


def spent(pid: int) -> float | None:
    """Seconds of CPU time that a process has taken; None if the system does not report it."""
    try:
        behind_name = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        )
        user, system = int(behind_name[11]), int(behind_name[12])
    except (OSError, IndexError, ValueError):
        return None
    return (user + system) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """Megabytes of memory that a process holds; 0 where the system does not report it."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
