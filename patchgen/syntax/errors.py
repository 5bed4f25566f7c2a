"""Problems: what went wrong, where, and what to do next.

A `Problem` is a value: it is collected, sorted and printed at the end of a run.  `PatchgenError`
carries one from the code that knows the position to the code that collects.  The explanations of
the codes are data, in `catalogue.toml`.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

# The next step where it is the same wherever the code is raised.
_NEXT_STEPS = {
    "PG001": "correct the path, or its permissions",
    "PG006": "write it so that the Python that runs patchgen can read it",
}
_SHOWN_WIDTH = 100


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A place in a file: line from 1, column from 1; 0 means the whole file."""

    path: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}" if self.line else self.path


_NOWHERE = Location("")


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One finding: `at: code what`, then a hint.  `code` is a key of the catalogue.

    `at` is a line that its reader can change; what is wrong in the code of a parent, which that
    line brings along, stands at `origin`.

    Messages are for people.  Other code uses `subject`, the names that the finding is about, in the
    form that each code has, and `cause`, the finding that this one reports in other words.
    """

    at: Location
    code: str
    what: str
    hint: str = ""
    severity: str = "error"
    origin: Location = _NOWHERE
    subject: tuple[str, ...] = field(default=(), repr=False, compare=False)
    cause: Problem | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        # A line break in a name would begin what looks like another finding.
        text = f"{self.at}: {self.code} {self.message}".replace("\n", "\\n")
        return f"{text}\n    hint: {self.hint}" if self.hint else text

    @property
    def message(self) -> str:
        """What is wrong, and the place in a parent where it is."""
        return f"{self.what} (at {self.origin})" if self.is_carried else self.what

    def data(self) -> dict[str, object]:
        """This as every command prints it in JSON."""
        return {
            **asdict(self.at),
            "code": self.code,
            "severity": self.severity,
            "message": self.what,
            "hint": self.hint,
            "origin": asdict(self.origin) if self.is_carried else None,
        }

    @property
    def is_carried(self) -> bool:
        """Whether it was found in the code of a parent."""
        return self.origin != _NOWHERE

    def carried_by(self, declared: Location) -> Problem:
        """This at the line of the modular file that brings it, if it stands in another file."""
        if self.is_carried or self.at.path == declared.path:
            return self
        return replace(self, at=declared, origin=self.at)


class PatchgenError(Exception):
    """Carries a `Problem` to where problems are collected."""

    def __init__(self, code: str, at: Location, what: str, hint: str = "") -> None:
        self.problem = Problem(at, code, what, hint or _NEXT_STEPS.get(code, ""))
        super().__init__(str(self.problem))

    def __reduce__(self) -> tuple[type[PatchgenError], tuple[str, Location, str, str]]:
        # Problems cross process boundaries; the default would rebuild from the message alone.
        p = self.problem
        return (PatchgenError, (p.code, p.at, p.what, p.hint))


class Refusals(PatchgenError):
    """Several problems of one file, raised together so that a run reports them all."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        first = self.problems[0]
        super().__init__(first.code, first.at, first.what, first.hint)

    def __reduce__(  # type: ignore[override]
        self,
    ) -> tuple[type[Refusals], tuple[tuple[Problem, ...]]]:
        return (Refusals, (self.problems,))


def problems_of(error: PatchgenError) -> tuple[Problem, ...]:
    """Every problem that `error` carries, in order."""
    return error.problems if isinstance(error, Refusals) else (error.problem,)


def point_at(problem: Problem, line: str) -> Problem:
    """Add the text of the line and a caret below its column to the hint of `problem`."""
    column = problem.at.column - 1
    start = len(line) - len(line.lstrip())
    if len(line) > _SHOWN_WIDTH:
        start = max(0, column - _SHOWN_WIDTH // 2)
    start = min(start, column)
    excerpt = line[start : start + _SHOWN_WIDTH].rstrip()
    # A tab is as wide as the terminal likes, so the same tabs stand above the caret.
    before = excerpt[: column - start]
    below = re.sub(r"[^\t]", " ", before)
    below = below.ljust(column - start)
    hint = f"{problem.hint}\n        {excerpt}\n        {below}^"
    return replace(problem, hint=hint)


def defect(display_path: str, error: Exception) -> Problem:
    """The problem of a file on which patchgen failed unexpectedly."""
    import traceback  # rarely needed

    frames = traceback.extract_tb(error.__traceback__)
    place = "an unknown place"
    if frames:
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}"
    what = f"internal error at {place}: {describe_error(error)}"
    hint = "this is a defect of patchgen, not of your file; please report it together with the file"
    return Problem(Location(display_path), "PG908", what, hint)


def one_line(error: BaseException, most: int | None = None) -> str:
    """The message of an exception on one line, of at most so many characters."""
    return " ".join(str(error).split())[:most]


def describe_error(error: BaseException, most: int | None = None) -> str:
    """The kind of an exception, and its message on one line."""
    return f"{type(error).__name__}: {one_line(error, most)}"


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """A hint with the nearest of `candidates`, or the empty string when none is near."""
    # Imported here: most runs have no message to write.
    import difflib

    near = difflib.get_close_matches(name, sorted(set(candidates)), n=3, cutoff=0.6)
    names = " or ".join(near).replace("\n", "\\n")
    return f"did you mean {names}?" if near else ""


def find_near(name: str, others: Iterable[str]) -> str:
    """The one of `others` that somebody meant who wrote `name`, as far as that shows; else "".

    hiddensize, pat_size, num_head          hidden_size, patch_size, num_attention_heads

    A name with a word more is a new one: `mlp_hidden_size`.
    """
    import difflib

    words = _list_words(name)
    known = {other: _list_words(other) for other in sorted(others)}
    shorter = [other for other in known if not _is_part(known[other], words)]
    near = difflib.get_close_matches(name, shorter, n=1, cutoff=0.75)
    if not near and len(words) > 1:
        near = [other for other in shorter if _is_part(words, known[other])]
    if near:
        return near[0]
    return ""


def _list_words(name: str) -> list[str]:
    return [word.rstrip("s") for word in name.strip("_").split("_")]


def _is_part(words: list[str], others: list[str]) -> bool:
    """Whether others are these words, in their order, and more."""
    rest = iter(others)
    return len(words) < len(others) and all(word in rest for word in words)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `patchgen explain CODE` prints, and what docs/errors.md is made of."""

    code: str
    title: str
    what: str
    why: str
    fix: str
    example: str

    @property
    def is_code(self) -> bool:
        """Whether the example is code that gets this problem, and not the line that is printed."""
        return f"{self.code} " not in self.example

    @property
    def sections(self) -> dict[str, str]:
        """What is said of the code, by its headings."""
        return {
            "What it does": self.what,
            "Why": self.why,
            "Example": self.example,
            "Write instead" if self.is_code else "What to do": self.fix,
        }


@functools.cache
def catalogue() -> dict[str, Explanation]:
    """Every code with its explanation, in the order of the codes."""
    text = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    return {code: Explanation(code, **table[code]) for code in sorted(table)}
