"""Errors of `tests/parity/*/*.toml`: each is planted in a variant, and verify has to see it.

Those of `fresh` are planted in modular files as users write them, which stand beside them; all
others in a copy of a generated file.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path

from patchgen.author.declare.registry import find_part_checks
from patchgen.verifying.case_runner import CaseRunner
from patchgen.verifying.cases import select_cases
from patchgen.verifying.checks.context import Case
from patchgen.verifying.mutation.lines import source_of
from patchgen.verifying.report import Result
from patchgen.verifying.variants import Plan, Variant
from tests.gallery import BY_NAME, variant_at
from tests.toytree import REPOSITORY

FOLDERS = ("planted", "unseen", "others", "kept", "blind", "fresh")
FILES = sorted(path for name in FOLDERS for path in Path(__file__).with_name(name).glob("*.toml"))
FRESH = Path(__file__).with_name("fresh")
PYPROJECT = '[tool.patchgen]\nsources = ["mine"]\noutputs = {{ mine = "made_{name}" }}\n'


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


def source(error: Error) -> Path:
    """The text that the error is planted in."""
    if error.variant in BY_NAME:
        module = BY_NAME[error.variant].module
        return REPOSITORY.joinpath(*module.split(".")).with_suffix(".py")
    return FRESH / f"modular_{error.variant}.py"


def changed_text(error: Error) -> str:
    text = source(error).read_text(encoding="utf-8")
    times = text.count(error.old)
    assert times == error.times, f"{error}: the old text stands there {times} times"
    return text.replace(error.old, error.new)


def converted(text: str, name: str, home: Path) -> Variant:
    """The variant of a fresh modular file."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]  # a package is imported once
    (home / "pyproject.toml").write_text(PYPROJECT.format(name=digest), encoding="utf-8")
    modular = home / "mine" / f"modular_{name}.py"
    modular.parent.mkdir()
    modular.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "patchgen", "convert"]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return variant_at(modular)


def planted(error: Error, home: Path) -> Variant:
    """The variant in a project of its own at `home`, with the error in it."""
    text = changed_text(error)
    if error.variant not in BY_NAME:
        return converted(text, error.variant, home)
    variant = BY_NAME[error.variant]
    path = Path(*variant.module.split(".")).with_suffix(".py")
    shutil.copytree(REPOSITORY / path.parent, home / path.parent)
    for package in (home / path.parent, home / path.parent.parent):
        (package / "__init__.py").touch()
    (home / path).write_text(text, encoding="utf-8")
    if (home / path).with_suffix(".diff").exists():  # as it is where a modular file has the error
        lines = (each.splitlines(keepends=True) for each in (source_of(variant.parent), text))
        (home / path).with_suffix(".diff").write_text("".join(unified_diff(*lines)))
    return replace(variant, home=str(home))


def seen_by(variant: Variant, by: str = "") -> Result | None:
    """The first case that fails; those of wide dtypes first, planted errors of parts left out."""
    bench = CaseRunner(variant)
    todo = [
        case
        for case in select_cases(variant, find_part_checks(variant.checked_parts), Plan())
        if case.kind != "planted" and re.search(by, case.name)
    ]
    for case in sorted(todo, key=_cost):
        result = bench.run(case)
        if result.status == "FAIL":
            return result
    return None


def _cost(case: Case) -> int:
    kinds = {"compiled": 3, "attention": 2, "plans": 2}
    return kinds.get(case.kind, 0) + {"float64": 0, "float32": 1}.get(case.dtype, 4)
