"""What flattening a modular file gives: the values that the project, the gate and the reports work on.

Only values, so that a run that finds everything in its cache need not load what makes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from patchgen.errors import Location, Problem


@dataclass(frozen=True, slots=True, order=True)
class UsedSymbol:
    """A parent's definition that an output was made from; `digest` is the sha256 of its block's text."""

    symbol: str  # "module.Name"
    digest: str
    path: str  # as shown


@dataclass(frozen=True, slots=True, order=True)
class LineOrigin:
    """Line `first + k` of the output came from line `line + k` of `path`, up to line `last` of the output."""

    first: int
    last: int
    path: str
    line: int


@dataclass(frozen=True, slots=True, order=True)
class Note:
    """What a reader of an output should know and no error says: a decorator that was dropped, a name that was renamed."""

    at: Location
    what: str


@dataclass(frozen=True, slots=True)
class Summary:
    """One row of `patchgen list`; `equal_lines` of the `modular_lines` stand in a parent as well."""

    classes: tuple[str, ...] = ()
    modular_lines: int = 0
    equal_lines: int = 0
    parents: tuple[str, ...] = ()  # modules


@dataclass(frozen=True, slots=True)
class FlatFile:
    """One output of a modular file, formatted and verified.

    `diff_base` is the name and the text that the checked-in diff compares with: the parent module made comparable;
    None where there is no such parent.
    """

    kind: str  # "modeling", "configuration", ...
    name: str  # of the file: "modeling_llama_sdpa.py"
    text: str
    parents: tuple[UsedSymbol, ...] = ()
    lines: tuple[LineOrigin, ...] = ()
    notes: tuple[Note, ...] = ()
    summary: Summary = Summary()
    diff_base: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Flattened:
    """Every output of one modular file; where there are problems, none of them may be written."""

    files: tuple[FlatFile, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """One part of what `patchgen explain FILE` prints: the plan, or the text after a pass."""

    title: str
    text: str
