"""What `LlamaMLP` is called in a model whose attention is `class GemmaAttention(LlamaAttention)`.

Each pair of a new class and its parent says which prefix takes the place of which; all pairs of one parent module must
agree.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchgen.errors import Location, PatchgenError


@dataclass(frozen=True, slots=True)
class Prefix:
    """`old` at the start of a class name becomes `new`; `why` is the pair of names that said so."""

    old: str
    new: str
    why: tuple[str, str]

    def apply(self, name: str) -> str:
        """`name` with the new prefix; names that do not begin with the old one keep theirs."""
        return self.new + name[len(self.old) :] if self.old and name.startswith(self.old) else name


def model_prefix(folder: str, classes: Iterable[str]) -> str:
    """The common beginning of a model's class names as the folder's name spells it: `gpt2` gives `GPT2`, or ""."""
    wanted = folder.replace("_", "").lower()
    for name in classes:
        for end in range(1, len(name) + 1):
            if name[:end].replace("_", "").lower() == wanted:
                return name[:end]
    return ""


def derive(new: str, parent: str, model: str) -> Prefix | None:
    """The prefix that the pair `class new(parent)` shows, or None when their names have nothing in common.

    `model` is the prefix of the parent's model where it is known.
    """
    stem = parent[len(model) :] if model and parent.startswith(model) else ""
    if stem and new.endswith(stem) and new != stem:
        return Prefix(model, new[: -len(stem)], (new, parent))
    suffix = _common_suffix(new, parent)
    if not suffix or suffix in (new, parent):
        return None
    return Prefix(parent[: -len(suffix)], new[: -len(suffix)], (new, parent))


def agree(found: Sequence[tuple[Prefix, Location]], module: str) -> Prefix | None:
    """The one prefix that all pairs of a parent module show.

    Raises PatchgenError PG110 at the first pair that says something else than the first one.
    """
    if not found:
        return None
    first = found[0][0]
    for prefix, at in found[1:]:
        if (prefix.old, prefix.new) != (first.old, first.new):
            pairs = f"{_pair(first)}, {_pair(prefix)}"
            what = f"two prefixes for the classes of {module}: {pairs}"
            hint = f"use one prefix, or derive the classes that need {prefix.new} in a modular file of their own"
            raise PatchgenError("PG110", at, what, hint)
    return first


def _pair(prefix: Prefix) -> str:
    return f"{prefix.old} -> {prefix.new} by class {prefix.why[0]}({prefix.why[1]})"


def _common_suffix(a: str, b: str) -> str:
    """The longest common ending that begins with a capital letter."""
    common = os.path.commonprefix([a[::-1], b[::-1]])[::-1]
    capital = re.search("[A-Z]", common)
    return common[capital.start() :] if capital else ""
