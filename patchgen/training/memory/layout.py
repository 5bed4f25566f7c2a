"""The engine and the number of ranks that divide a step, as in `patchgen train --engine`."""

from __future__ import annotations

from dataclasses import dataclass

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.parallel.engine import Engine, parse_engine

# DeepSpeed's flat buffers do not run on fake tensors: their size is computed from one process.
COMPUTED = ("zero1", "zero2", "zero3")


@dataclass(frozen=True, slots=True)
class Layout:
    """`ranks` processes of `engine`; the first of them is predicted."""

    engine: str
    ranks: int

    def __post_init__(self) -> None:
        """Raise PatchgenError PG850 for too few ranks, PG830 and PG831 for the engine."""
        if self.ranks < 2 or self.engine in ("single", "auto"):
            ranks = "1 rank" if self.ranks == 1 else f"{self.ranks} ranks"
            what = f"{self.engine} on {ranks} divides nothing"
            hint = "give an engine and --ranks 2 or more; without --engine it is one process"
            raise PatchgenError("PG850", Location(f"--engine {self.engine}"), what, hint)
        if not self.computed:
            _ = self.parts

    @property
    def computed(self) -> bool:
        """Return whether figures are computed by a rule, instead of traced on this rank."""
        return self.engine in COMPUTED

    @property
    def parts(self) -> Engine:
        """Return how many ranks divide what."""
        return parse_engine(self.engine, {"WORLD_SIZE": str(self.ranks)})

    @property
    def sends_tokens(self) -> bool:
        """Return whether tokens go to experts on other ranks, so that ranks differ in load."""
        return not self.computed and self.parts.ep > 1

    def describe(self) -> str:
        """Return a description."""
        return f"{self.engine} on {self.ranks:,} ranks"
