"""Over how many ranks a step is spread, and by which engine, in the words of `patchgen train --engine`.

In: what the command line says.  Out: a `Layout`.  A model is laid out so in `ranks`.
"""

from __future__ import annotations

from dataclasses import dataclass

from patchgen.errors import Location, PatchgenError
from patchgen.training.parallel.engine import Engine, parse_engine

# DeepSpeed's own flat buffers do not run on fake tensors: what they hold is computed from what one rank alone holds.
COMPUTED = ("zero1", "zero2", "zero3")


@dataclass(frozen=True, slots=True)
class Layout:
    """`ranks` processes of `engine`, of which the first is looked at."""

    engine: str
    ranks: int

    def __post_init__(self) -> None:
        """Raises PatchgenError PG850 for a number of ranks that is no layout, PG830 and PG831 for the engine."""
        if self.ranks < 2 or self.engine in ("single", "auto"):
            what = f"{self.engine} on {self.ranks} rank{'s' if self.ranks != 1 else ''} spreads nothing"
            hint = "give an engine and --ranks 2 or more; without --engine it is one process"
            raise PatchgenError("PG850", Location(f"--engine {self.engine}"), what, hint)
        if not self.computed:
            _ = self.parts

    @property
    def computed(self) -> bool:
        """Whether figures come from a rule, and not from what was traced on this rank."""
        return self.engine in COMPUTED

    @property
    def parts(self) -> Engine:
        """How many ranks share what."""
        return parse_engine(self.engine, {"WORLD_SIZE": str(self.ranks)})

    @property
    def sends_tokens(self) -> bool:
        """Whether tokens go to experts on other ranks, of which one then has more to do than another."""
        return not self.computed and self.parts.ep > 1

    def told(self) -> str:
        """In words."""
        return f"{self.engine} on {self.ranks:,} ranks"
