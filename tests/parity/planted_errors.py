"""Errors of `tests/parity/planted/*.toml`: each is planted in a copy of a generated file, and verify has to see it."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen.verify.case_runner import CaseRunner
from patchgen.verify.cases.case import Case
from patchgen.verify.cases.select import select_cases
from patchgen.verify.parts.combine import find_part_checks
from patchgen.verify.report.result import Result
from patchgen.verify.selection import Plan
from patchgen.verify.variants import Variant
from tests.gallery import BY_NAME
from tests.toytree import REPOSITORY

FOLDERS = ("planted", "unseen")
FILES = sorted(path for name in FOLDERS for path in Path(__file__).with_name(name).glob("*.toml"))
PLAN = Plan(dtypes=("float64", "float32"))


@dataclass(frozen=True)
class Error:
    """One text of a variant's output, and the wrong one in its place."""

    variant: str
    name: str
    old: str
    new: str
    times: int = 1  # that the old text stands there
    unseen: str = ""  # why no case can see it here
    kind: str = ""  # of those in `unseen/`: what no case did before
    by: str = ""  # a pattern for the names of the cases that see it; "": any

    def __str__(self) -> str:
        return f"{self.variant}: {self.name}"


def errors() -> Iterator[Error]:
    for path in FILES:
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["error"]:
            yield Error(path.stem, **entry)


def planted(error: Error, home: Path) -> Variant:
    """The variant in a project of its own at `home`, with the error in it."""
    variant = BY_NAME[error.variant]
    path = Path(*variant.module.split(".")).with_suffix(".py")
    shutil.copytree(REPOSITORY / path.parent, home / path.parent)
    for package in (home / path.parent, home / path.parent.parent):
        (package / "__init__.py").touch()
    text = (home / path).read_text(encoding="utf-8")
    assert text.count(error.old) == error.times, (
        f"{error}: the old text stands there {text.count(error.old)} times"
    )
    (home / path).write_text(text.replace(error.old, error.new), encoding="utf-8")
    return replace(variant, home=str(home))


def seen_by(variant: Variant, by: str = "") -> Result | None:
    """The first case that fails; those of wide dtypes first, planted errors of parts left out."""
    plan = Plan() if by else PLAN
    bench = CaseRunner(variant)
    todo = [
        case
        for case in select_cases(variant, find_part_checks(variant.checked_parts), plan)
        if case.kind != "planted" and re.search(by, case.name)
    ]
    for case in sorted(todo, key=_cost):
        result = bench.run(case)
        if result.status == "FAIL":
            return result
    return None


def _cost(case: Case) -> int:
    return {"compiled": 3, "attention": 2, "plans": 2}.get(case.kind, 0) + (case.dtype != "float64")
