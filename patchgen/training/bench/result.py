"""What is known of one contestant in one case: plain values, which JSON holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from patchgen.training.bench.quartiles import Quartiles, quartiles

# "ok": it ran and its numbers are right.  "partial": it ran, and time or memory was up before its last turn.
Status = Literal["ok", "partial", "wrong", "unavailable", "does not fit", "failed", "no time"]


@dataclass(frozen=True, slots=True)
class Result:
    """One contestant.

    turns       seconds of the timed steps, by turn
    tokens      real ones in a step
    samples     texts in a step
    peak        bytes allocated at most in a timed step; None without a GPU
    driver      the peak is what the driver says was taken, since CUDA graphs were replayed
    saved       bytes kept for the backward pass, weights left out; of tiny models
    losses      of the first step and of the last of the first turn
    apart       the first loss, and the norm of its gradients, from the reference's, relative; the furthest parameter
    masks       kinds of masks that SDPA got
    kernels     of attention, the dearest first
    rows        that fit, where that was asked
    block       seconds of the case's block
    ready       seconds until the first step was done: building and compiling
    """

    status: Status
    note: str = ""
    turns: tuple[tuple[float, ...], ...] = ()
    tokens: int = 0
    samples: int = 0
    peak: int | None = None
    driver: bool = False
    saved: int | None = None
    losses: tuple[float, float] | None = None
    apart: tuple[float, float, float] | None = None
    masks: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    rows: int | None = None
    block: tuple[float, ...] = ()
    ready: float | None = None

    @property
    def counts(self) -> bool:
        """Whether its times may stand beside others."""
        return self.status in ("ok", "partial") and any(self.turns)

    @property
    def step(self) -> Quartiles:
        """Of a step's seconds over all turns."""
        return quartiles([seconds for turn in self.turns for seconds in turn])

    @property
    def speed(self) -> Quartiles:
        """Real tokens in a second."""
        step = self.step
        return Quartiles(self.tokens / step.high, self.tokens / step.median, self.tokens / step.low)

    @property
    def drift(self) -> float:
        """How far the medians of its turns are apart, relative to the smallest: clocks that changed."""
        medians = [quartiles(turn).median for turn in self.turns if turn]
        return max(medians) / min(medians) - 1 if medians else 0.0

    def as_json(self) -> dict[str, Any]:
        """Without what is not known."""
        return {
            name: value for name, value in asdict(self).items() if value not in (None, "", (), 0)
        }


def from_json(told: dict[str, Any]) -> Result:
    """The inverse of `Result.as_json`."""
    return Result(**{name: _tuples(value) for name, value in told.items()})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(one) for one in value) if isinstance(value, list) else value
