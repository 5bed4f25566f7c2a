"""Which modeling files of transformers lack the flags that a part sets, read from their text.

Takes an environment; returns the flags for SDPA, FlashAttention and checkpointing of the classes of
a file, also those that they inherit from other files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from patchgen.author.anatomy.code import constant, last
from patchgen.author.anatomy.module import Class, Module, open_module
from patchgen.syntax.errors import PatchgenError
from patchgen.syntax.locate import Environment

SDPA, FLASH, CHECKPOINTING = (
    "_supports_sdpa",
    "_supports_flash_attn",
    "supports_gradient_checkpointing",
)


def attends(module: Module) -> bool:
    """Whether the file defines a class of attention, by its name."""
    return any("Attention" in name for name in module.classes)


@dataclass(frozen=True)
class Flags:
    """What the classes of modeling files have set; the dictionary is a cache."""

    env: Environment
    _opened: dict[str, Module | None] = field(default_factory=dict, repr=False, compare=False)

    def open(self, name: str) -> Module | None:
        """The module with that dotted name; None if it is no model, or cannot be read."""
        if name not in self._opened:
            self._opened[name] = self._open(name)
        return self._opened[name]

    def supports(self, module: Module, flag: str) -> bool:
        """Whether a class of a model in this file has `flag` set."""
        return any(self._flag(module, one, flag) for one in module.classes.values())

    def _flag(self, module: Module, owner: Class, flag: str) -> bool:
        if flag in owner.settings:
            return bool(constant(owner.settings[flag]))
        return any(self._flag(other, base, flag) for other, base in self._inherited(module, owner))

    def _inherited(self, module: Module, owner: Class) -> Iterator[tuple[Module, Class]]:
        """The bases from other modeling files."""
        for parent in owner.parents:
            yield from self._inherited(module, parent)
        for base in owner.bases:
            place = module.imports.get(base.split(".")[0], "")
            if last(base) in module.classes or "modeling_" not in place:
                continue
            found = self.open(_absolute(module, place).rpartition(".")[0])
            if found is not None and last(base) in found.classes:
                yield found, found.classes[last(base)]

    def _open(self, name: str) -> Module | None:
        if ".models." not in name:
            return None  # what modeling_utils says is what a file gets that says nothing
        try:
            return open_module(self.env, name)
        except PatchgenError:
            return None


def _absolute(module: Module, place: str) -> str:
    dots = len(place) - len(place.lstrip("."))
    if not dots:
        return place
    return ".".join([*module.name.split(".")[:-dots], place.lstrip(".")])
