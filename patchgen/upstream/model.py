"""The values that pass between the stages of the profile `transformers`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClassText:
    """A class statement as text.

    `leading` is the comment lines directly above it (no blank lines), `text` runs from the first
    decorator to the last line of the body, at column 0, with its final newline.
    """

    name: str
    leading: str
    text: str


@dataclass(frozen=True, slots=True)
class ImportText:
    """A top-level import statement, or an `if` that guards imports (`guard`).

    `leading` holds the blank lines and comments above it; `text` is exact and ends with a newline.
    """

    leading: str
    text: str
    guard: bool


@dataclass(frozen=True, slots=True)
class Output:
    """One file of a modular file before linting and formatting."""

    kind: str
    text: str
