"""The structural pass: what `patchgen new` says of a part in a model, and whether what it writes can be flattened.

In: a model and a part.  Out: an `Entry`, and the modular file where one is written.  No model is run, none imported.
"""

from __future__ import annotations

import ast
import hashlib
import re
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import patchgen
from patchgen.anatomy.module import Module, open_module
from patchgen.coverage.book import Entry
from patchgen.coverage.grouped import GROUPED, classes_of, grouped
from patchgen.coverage.lacking import attends
from patchgen.declare.request import WRITERS, answer
from patchgen.errors import PatchgenError, Problem, problems_of
from patchgen.flat import Flattened
from patchgen.flatten import flatten
from patchgen.settings import Settings
from patchgen.source.locate import Environment, make_environment

# What these parts find nothing to do in, though there are classes of attention, they have missed.
OF_ATTENTION = ("sdpa", "checkpoint", "flash")
PARTS = (*WRITERS, GROUPED)


@dataclass(frozen=True, slots=True)
class Task:
    """One part for one model."""

    model: str  # the name that `patchgen new` takes
    module: str  # dotted
    part: str

    @property
    def modular(self) -> Path:
        """Where its modular file lies in a project of its own."""
        return Path("modular", self.model, f"modular_{self.model}_{self.part}.py")


@dataclass(frozen=True, slots=True)
class Structural:
    """`entry` says "written" where the converter is yet to be asked, and `text` is then the modular file."""

    task: Task
    entry: Entry
    text: str = ""
    declared: tuple[str, ...] = ()  # the classes that the part changes
    reads_text: bool = False


def declared(env: Environment, task: Task) -> Structural:
    """What `patchgen new` says, or the project has."""
    if task.part == GROUPED:
        return _of_project(env, task)
    try:
        found = answer(env, task.module, [task.part])
    except PatchgenError as error:
        return Structural(task, _refused(env, task, problems_of(error)))
    if not found.parts:
        return Structural(task, Entry("redundant", found.left_out[0].redundant))
    names = tuple(dict.fromkeys(one.name for part in found.parts for one in part.declared))
    entry = Entry("written", key=_key(found.module, found.text, task.part))
    return Structural(task, entry, found.text, names, "input_ids" in found.module.source.text)


def _of_project(env: Environment, task: Task) -> Structural:
    module = open_module(env, task.module)
    text, entry = grouped(env, module, ".".join(task.modular.with_suffix("").parts))
    if entry is not None:
        return Structural(task, entry)
    entry = Entry("written", key=_key(module, text, task.part))
    return Structural(task, entry, text, tuple(classes_of(text)), "input_ids" in module.source.text)


def _refused(env: Environment, task: Task, problems: tuple[Problem, ...]) -> Entry:
    first = problems[0]
    what = first.what.removeprefix(f"{task.part}: ")
    # A reason that shows nowhere in the file says that there is nothing in it that the part could change.
    nowhere = all(not problem.at.line and problem.code == "PG803" for problem in problems)
    if nowhere and not (task.part in OF_ATTENTION and attends(open_module(env, task.module))):
        return Entry("not applicable", what)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Entry("refused", f"{first.at}: {first.code} {what}{more}")


def _key(module: Module, text: str, part: str) -> str:
    """The digest of the parent's file, of what is written for it, and of the parts in that."""
    digest = hashlib.sha256(text.encode())
    digest.update(module.source.text.encode())
    for each in sorted({part, *re.findall(r"patchgen\.parts\.(\w+)", text)}):
        digest.update(_meaning(each).encode())
    return digest.hexdigest()[:16]


@cache
def _meaning(part: str) -> str:
    """The sources of the part without comments."""
    folder = Path(patchgen.__file__).parent / "parts"
    files = sorted((folder / part).rglob("*.py")) or [folder / f"{part}.py"]
    return "\n".join(ast.dump(ast.parse(path.read_text(encoding="utf-8"))) for path in files)


def converted(found: Structural) -> Entry:
    """The entry of what was written, once the converter was asked."""
    with tempfile.TemporaryDirectory(prefix="patchgen-") as folder:
        flat = flat_in(Path(folder), found)
    if flat.problems:
        first = min(flat.problems)
        return Entry("refused", f"by the converter: {first.at}: {first.code} {first.what}", found.entry.key)
    return found.entry


def flat_in(home: Path, found: Structural) -> Flattened:
    """What flattening the modular file gives, which is put into the project at `home`."""
    path = home.resolve() / found.task.modular
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(found.text, encoding="utf-8")
    return flatten(path, make_environment(home), Settings())
