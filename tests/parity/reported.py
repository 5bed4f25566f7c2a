"""Bugs of the kinds that public trackers tell of, planted in models outside the gallery.

`reported/MODEL.toml` names each: the text of transformers' own file that it stands in, the wrong one
in its place, an issue or a request that tells of such a bug, and the classes that a cause may name.

`python -m tests.parity.reported` runs each as `patchgen verify` does, with its time, up to the first
case that fails, and prints that case, its cause, and whether the cause names the place.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import re
import sys
import tempfile
import time
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from patchgen.verifying import report, run
from patchgen.verifying.variants import SECONDS, Plan, Variant
from tests.population.models import find_models
from tests.population.neutral import kind_of, write_variant

FILES = sorted(Path(__file__).with_name("reported").glob("*.toml"))
IMPORTS = 6.0  # seconds that a process of `verify` takes before its first case


@dataclass(frozen=True)
class Bug:
    """A text of a model's file, and the wrong one in its place."""

    model: str
    name: str
    at: str  # a pattern for the classes that a cause may name; "": what a cache alone shows
    old: str
    new: str
    issue: str = ""  # that tells of such a bug, here or elsewhere: "owner/name#number"
    times: int = 1  # that the old text stands there
    unseen: str = ""  # why no case can see it
    elsewhere: str = ""  # why a cause cannot name the class

    def __str__(self) -> str:
        return f"{self.model}: {self.name}"


class _Seen(Exception):
    """A case has failed: the rest need not run."""


def find_bugs() -> Iterator[Bug]:
    for path in FILES:
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["bug"]:
            yield Bug(path.stem, **entry)


def plant(bug: Bug, home: Path) -> Variant:
    """The variant that has the bug, in a project at `home`."""
    model = next(each for each in find_models() if each.name == bug.model)

    def change(text: str) -> str:
        times = text.count(bug.old)
        assert times == bug.times, f"{bug}: the old text stands there {times} times"
        return text.replace(bug.old, bug.new)

    digest = hashlib.sha256(str(bug).encode()).hexdigest()[:8]  # a package is imported once
    return write_variant(model, home, f"{bug.model}_{digest}", change)


def judge(bug: Bug, home: Path, seconds: float = SECONDS - IMPORTS) -> dict[str, Any]:
    """What the first case says that fails within the time of `verify`; "missed" if none does."""
    variant, results = plant(bug, home), list[report.Result]()

    def hear(**said: Any) -> None:
        result = said.get("result")
        if result is not None:
            results.append(result)
            if result.status == "FAIL":
                raise _Seen

    begun = time.process_time()
    try:
        run.run_cases(
            run.Work(variant, Plan(lines=True, seconds=seconds + begun / run.FOR_CASES), "cpu"),
            hear,
        )
    except _Seen:
        pass
    failed = results[-1] if results and results[-1].status == "FAIL" else None
    cause = failed.cause if failed is not None else ""
    return {
        **{name: asdict(bug)[name] for name in ("model", "name", "issue", "at")},
        "kind": kind_of(next(each for each in find_models() if each.name == bug.model)),
        "verdict": "missed" if failed is None else "seen",
        "case": "" if failed is None else failed.case,
        "note": "" if failed is None else failed.note[:300],
        "cause": cause,
        "is named": re.search(rf"`({bug.at})`", cause) is not None,
        "cases": len(results),
        "seconds": round(time.process_time() - begun, 1),
    }


def _judge_apart(bug: Bug, home: str, seconds: float) -> None:
    sys.stdout.reconfigure(line_buffering=True)
    warnings.simplefilter("ignore")
    print(json.dumps(judge(bug, Path(home), seconds)))


def main() -> None:
    """Each bug in a process of its own, which is a copy of one that has imported everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*", help="of the bugs that are run; all without any")
    parser.add_argument("--seconds", type=float, default=SECONDS - IMPORTS)
    asked = parser.parse_args()
    import patchgen.verifying.case_runner  # noqa: F401

    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as home:
        for bug in find_bugs():
            if asked.words and not any(word in str(bug) for word in asked.words):
                continue
            child = context.Process(target=_judge_apart, args=(bug, home, asked.seconds))
            child.start()
            child.join()
            if child.exitcode:
                print(json.dumps({"name": str(bug), "verdict": f"died with {child.exitcode}"}))


if __name__ == "__main__":
    main()
