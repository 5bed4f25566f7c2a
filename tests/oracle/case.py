"""The values of the oracle: a generated package, what its modular file means, and its probes.

`Feature` is what one dimension of the grammar contributes to a class; `Case` is a whole package.
In the text of a feature `PARENT` stands for the expression by which the modular file names the
parent, `CHILD` for the class declared there, `OWNER` for the parent's name in its own file.
"""

from __future__ import annotations

import random
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Feature:
    """Members of a parent and its child that belong together, and the probe that checks them.

    `parent` and `child` are class-body texts, `middle` goes into a class between the two where the
    shape has one.  `calls` are expressions or statements over `obj`.  `top` and `child_top` stand
    at module level above the classes.  `late` stands below the parent's class.  `keywords` and
    `decorators` belong to the parent's class statement.
    """

    parent: str = ""
    child: str = ""
    calls: tuple[str, ...] = ()
    middle: str = ""
    top: str = ""
    late: str = ""
    child_top: str = ""
    child_late: str = ""
    keywords: str = ""
    decorators: str = ""
    child_decorators: str = ""
    child_keywords: str = ""
    removed: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()  # the shapes that suit it; empty: all
    same_name: bool | None = (
        None  # whether only a same-name variant (True) or a new model (False) shows it
    )
    construct: tuple[str, ...] = ()  # instead of `CHILD(3)`
    oracle_parent: str | None = None  # the parent's members after the edits that the child declares


@dataclass(frozen=True)
class Case:
    """One generated package, `files` by path, of which `modular` is to be flattened.

    `oracle_files` replace files of the same path when Python's inheritance is run: where an edit or
    a redefinition is declared, the parent's text already has it.  `overrides` pairs a name of a
    parent module with the class of the modular file that takes its place.  `removed` lists members
    that do not exist any more, by class.  `renames` pairs a class name as inherited with its flat
    name.
    """

    seed: int
    dimension: str
    files: dict[str, str]
    modular: str
    probe: tuple[str, ...]
    classes: tuple[str, ...]
    oracle_files: dict[str, str]
    overrides: tuple[
        tuple[str, str, str], ...
    ] = ()  # parent module, its name there, name in the modular
    removed: tuple[tuple[str, str], ...] = ()  # class of the modular, member
    renames: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """How a failure calls it; the number brings it back."""
        return f"{self.dimension}-{self.seed}"

    def listing(self) -> str:
        """Every file, for a person."""
        parts = [f"# ===== {path}\n{text}" for path, text in self.files.items()]
        parts += [
            f"# ===== {path} as the oracle reads it\n{text}"
            for path, text in self.oracle_files.items()
        ]
        return "\n".join([*parts, "# ===== probe", *self.probe])


class Draw(random.Random):
    """Random choices with the few shapes that a grammar needs."""

    def pick(self, *options: str) -> str:
        """One of `options`."""
        return self.choice(options)

    def chance(self, share: float) -> bool:
        """True in `share` of the cases."""
        return self.random() < share

    def number(self) -> str:
        """A small integer literal."""
        return str(self.randrange(1, 9))

    def some(self, options: Iterable[str], most: int) -> list[str]:
        """Up to `most` different ones of `options`, in their order."""
        every = list(options)
        kept = set(self.sample(range(len(every)), min(len(every), self.randrange(most + 1))))
        return [option for place, option in enumerate(every) if place in kept]


def block(text: str) -> str:
    """`text` without its common indentation and outer blank lines."""
    return textwrap.dedent(text).strip("\n")


def indented(text: str, by: int = 4) -> str:
    """`text` moved to the right."""
    return textwrap.indent(text, " " * by)
