"""The structural pass: what `patchgen new` answers for a part, and whether its file flattens.

Takes a model and a part; returns an `Entry`, and the modular file if there is one.  No model is
run or imported.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

import patchgen
from patchgen.author.anatomy.module import Module, open_module
from patchgen.author.coverage.book import Entry
from patchgen.author.coverage.grouped import GROUPED, by_hand, classes_of
from patchgen.author.coverage.lacking import attends
from patchgen.author.declare.request import WRITERS, answer
from patchgen.compiler.flat import Flattened
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import PatchgenError, Problem, problems_of
from patchgen.syntax.locate import Environment, make_environment

# What these parts find nothing to do in, though there are classes of attention, they have missed.
OF_ATTENTION = ("sdpa", "checkpoint", "flash", "flex")
EVERY = tuple(WRITERS)


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
    """The `entry` of a task, and the `text` of its modular file if it is "written"."""

    task: Task
    entry: Entry
    text: str = ""
    declared: tuple[str, ...] = ()  # the classes that the part changes
    reads_text: bool = False


def declared(env: Environment, task: Task) -> Structural:
    """The answer of `patchgen new`; for grouped experts that it refuses, the project's own file."""
    try:
        found = answer(env, task.module, [task.part])
    except PatchgenError as error:
        entry = _refused(env, task, problems_of(error))
        text = (
            by_hand(env, ".".join(task.modular.with_suffix("").parts))
            if task.part == GROUPED
            else ""
        )
        return _of_project(env, task, text) if text else Structural(task, entry)
    if not found.parts:
        return Structural(task, Entry("redundant", found.left_out[0].redundant))
    names = tuple(dict.fromkeys(one.name for part in found.parts for one in part.declared))
    return Structural(
        task, Entry("written"), found.text, names, "input_ids" in found.module.source.text
    )


def _of_project(env: Environment, task: Task, text: str) -> Structural:
    reads_text = "input_ids" in open_module(env, task.module).source.text
    return Structural(task, Entry("written"), text, tuple(classes_of(text)), reads_text)


def _refused(env: Environment, task: Task, problems: tuple[Problem, ...]) -> Entry:
    first = problems[0]
    what = first.what.removeprefix(f"{task.part}: ")
    # A reason without a place means that the file has nothing that the part could change.
    nowhere = all(not problem.at.line and problem.code == "PG803" for problem in problems)
    if nowhere and not (task.part in OF_ATTENTION and attends(open_module(env, task.module))):
        return Entry("not applicable", what)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Entry("refused", f"{first.at}: {first.code} {what}{more}")


def settled(env: Environment, found: Structural, known: Entry | None = None) -> Entry:
    """The entry of what was written, once it is flattened: `known` if that is of the same code."""
    with tempfile.TemporaryDirectory(prefix="patchgen-") as folder:
        flat = flat_in(Path(folder), found)
    if flat.problems:
        first = min(flat.problems)
        return Entry("refused", f"by the converter: {first.at}: {first.code} {first.what}")
    key = _key(open_module(env, found.task.module), flat, found.task.part)
    return known if known is not None and known.key == key else Entry("written", key=key)


def _key(parent: Module, flat: Flattened, part: str) -> str:
    """The digest of the file of the parent, of the code beside it in a trial, and of its checks."""
    digest = hashlib.sha256(parent.source.text.encode())
    digest.update(digest_checks(Path(patchgen.__file__).parent, part))
    for file in flat.files:
        digest.update(file.name.encode())
        digest.update(_code(file.text).encode())
    return digest.hexdigest()[:16]


@functools.cache
def digest_checks(package: Path, part: str) -> bytes:
    """What a trial of `part` checks, by the code of `package`: its check, and which cases run."""
    checks = sorted(package.glob("verify/parts/*.py"))
    own = [file for file in checks if file.stem not in EVERY or file.stem == part]
    files = [*own, package / "author/coverage/trial.py"]
    codes = [_code(file.read_text(encoding="utf-8")) for file in files]
    return hashlib.sha256("\n".join(codes).encode()).digest()


def _code(text: str) -> str:
    """`text` without comments, docstrings and places, its definitions in an order of their own."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node) is not None
        ):
            del node.body[0]
    return "\n".join(sorted(map(ast.dump, tree.body)))


def flat_in(home: Path, found: Structural) -> Flattened:
    """What flattening the modular file gives, which is put into the project at `home`."""
    path = home.resolve() / found.task.modular
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(found.text, encoding="utf-8")
    return flatten(path, make_environment(home), Settings())
