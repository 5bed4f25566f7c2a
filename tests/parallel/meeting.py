"""Two processes that meet, and what each of them comes to where the first one fails.

Run as a program by `test_meeting.py`, which gives a folder: each process writes there what it saw.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path

from filelock import FileLock
from torch import distributed

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.loop.run import LOCK, guard
from patchgen.training.parallel.engine import Engine, Launch
from patchgen.training.parallel.process_group import first_process_first, join, leave
from tests.parallel.forked import forked

WORLD = 2
TIMEOUT = 30  # seconds; a process that waits for a lost one fails with gloo's message


def refused():
    raise PatchgenError("PG817", Location("run"), "cannot be used", "take another")


def broken():
    raise ZeroDivisionError("a defect")


def before_others(engine, place, what):
    return first_process_first(
        engine, lambda: what() if engine.is_first else "did not wait for a failure"
    )


def in_order(engine, place):
    """The others find what the first one wrote."""

    def work():
        if engine.is_first:
            (place / "written").touch()
        return (place / "written").exists()

    return first_process_first(engine, work)


def at_a_run_in_use(engine, place):
    """Another program is at it."""
    with FileLock(place / LOCK) if engine.is_first else open(os.devnull):
        with guard(place, engine, claims=False):
            return "nobody was at it"


CASES = {
    "in order": in_order,
    "refused before others": lambda engine, place: before_others(engine, place, refused),
    "broken before others": lambda engine, place: before_others(engine, place, broken),
    "a run in use": at_a_run_in_use,
}


def observed(case, engine, place):
    try:
        return case(engine, place)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def run(place):
    rank = int(os.environ["RANK"])
    engine = Engine("ddp", Launch(WORLD, rank, rank))
    join(engine, "cpu", TIMEOUT)
    found = {}
    for name, case in CASES.items():
        found[name] = observed(case, engine, Path(place))
        distributed.barrier()
    Path(place, f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    leave(engine)


if __name__ == "__main__":
    forked(partial(run, *sys.argv[1:]), WORLD)
