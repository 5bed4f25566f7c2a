"""Which lines of the flat file does the variant add or change?

The diff that stands beside the flat file says it, and `check` keeps the diff true.  Where there is
none, the file is compared with the parent's.
"""

from __future__ import annotations

import difflib
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from patchgen.verify.diff_lines import find_added_lines
from patchgen.verify.variants import Variant


@dataclass(frozen=True, slots=True)
class FlatText:
    """The text of a variant's output, and the numbers of the lines that its parent has not."""

    path: Path
    text: str
    changed: frozenset[int]

    @property
    def name(self) -> str:
        return self.path.name

    def line(self, number: int) -> str:
        return self.text.split("\n")[number - 1]


def read_flat_text(variant: Variant) -> FlatText:
    """The output of `variant`, and what is changed in it."""
    path = Path(variant.home, *variant.module.split(".")).with_suffix(".py")
    text = path.read_text(encoding="utf-8")
    diff = path.with_suffix(".diff")
    changed = (
        find_added_lines(diff.read_text(encoding="utf-8"))
        if diff.is_file()
        else _unlike_parent(variant, text)
    )
    return FlatText(path.resolve(), text, changed)


def _unlike_parent(variant: Variant, text: str) -> frozenset[int]:
    """Where no diff is written, as for classes with names of their own: under the parent's."""
    spec = importlib.util.find_spec(variant.parent)
    if spec is None or spec.origin is None:
        return frozenset(range(1, text.count("\n") + 1))
    parent = Path(spec.origin).read_text(encoding="utf-8")
    ours = _renamed(text, variant.heads, parent).split("\n")
    matcher = difflib.SequenceMatcher(None, parent.split("\n"), ours, autojunk=False)
    changed = (
        range(first + 1, last + 1)
        for kind, _, _, first, last in matcher.get_opcodes()
        if kind in ("replace", "insert")
    )
    return frozenset(number for numbers in changed for number in numbers)


def _renamed(text: str, heads: tuple[str, ...], parent: str) -> str:
    """`text` with the parent's prefix for the variant's: LlamaMoeModel is LlamaModel."""
    theirs = set(re.findall(r"^class (\w+)", parent, re.MULTILINE))
    for head in heads:
        for name in theirs:
            prefix, ours = _differing_start(name, head)
            if prefix and ours != prefix and ours.startswith(prefix):
                return re.sub(rf"\b(_?){ours}(?=[A-Z])", rf"\g<1>{prefix}", text)
    return text


def _differing_start(name: str, other: str) -> tuple[str, str]:
    """What is left of two names without their common ending, which begins with a capital letter."""
    for at in range(1, len(name)):
        if name[at].isupper() and other.endswith(name[at:]) and len(other) > len(name[at:]):
            return name[:at], other.removesuffix(name[at:])
    return "", ""
