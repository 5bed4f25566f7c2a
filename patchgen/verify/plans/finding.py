"""What is not right of a name that a model carries, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from patchgen.syntax.errors import Location, Problem


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A fault of `rule` in the plan or list `kind`; `code` is a code of the error catalogue."""

    kind: str  # "tp", "no_split"
    rule: str  # "layers.*.mlp.gate_proj", "LlamaDecoderLayer"
    code: str
    what: str

    def at(self, owner: str) -> Problem:
        """The problem of a model of class `owner`."""
        return Problem(Location(owner), self.code, str(self))

    def __str__(self) -> str:
        return f"{self.kind} {self.rule}: {self.what}"
