"""What the work on a stranger's files may take.  Real models come nowhere near.

No file of a project lifts the limits; `PATCHGEN_UNLIMITED=1 patchgen check` does.  What exceeds
one is PG915, and the exit code is 3.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.system import limited

# Of a source.  The longest of transformers has 5,935 lines, its longest line 5,148 letters.
LINES = 30_000
LINE = 20_000
SECONDS = 30  # of the processor, for a step of a file: the whole gallery takes 11
MEGABYTES = 1500  # more than before, for the same
RUN_SECONDS = 3600  # of the processor, for a command that reads
OUTPUT = 5_000_000  # letters of the texts that a modular file gives: more would not be read again
FINDINGS = 1_000
FINDING = 10_000  # letters
REPORT = 1_000_000  # letters of all findings


def is_unlimited() -> bool:
    """Whether the person who runs patchgen lifts the limits."""
    return bool(os.environ.get("PATCHGEN_UNLIMITED"))  # which worker processes inherit


class _TooMuch(Exception):
    """A limit of time or memory was reached."""


@contextlib.contextmanager
def limit_work(at: Location, seconds: float = SECONDS) -> Iterator[None]:
    """Raise PatchgenError PG915 in a block that takes too much time or memory."""
    if is_unlimited():
        yield
        return
    # A run of many files remembers what it has read.
    megabytes = MEGABYTES if seconds <= SECONDS else math.inf
    try:
        with limited(seconds, _TooMuch, megabytes):
            yield
    except _TooMuch as error:
        raise exceeded(at, str(error)) from error


def exceeded(at: Location, what: str) -> PatchgenError:
    """The error of what exceeds a limit."""
    hint = "split it; with PATCHGEN_UNLIMITED=1 in the environment nothing is limited"
    return PatchgenError("PG915", at, what, hint)
