"""The result of one entry in one case, as plain values for JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from patchgen.training.bench.quartiles import Quartiles, quartiles

# "ok": it ran and its numbers are right.  "partial": time or memory ran out before its last round.
Status = Literal["ok", "partial", "wrong", "unavailable", "does not fit", "failed", "no time"]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one entry.

    rounds      seconds of the timed steps, by round
    tokens      real tokens in a step
    samples     texts in a step
    peak        peak of allocated bytes in a timed step; None without a GPU
    driver      the peak is reported by the driver, because CUDA graphs were replayed
    saved       bytes saved for the backward pass, without weights; of tiny models
    losses      of the first step, and of the last step of the first round
    deviation   relative differences from the reference: of the first loss, of the norm of its
                gradients, and of the worst parameter
    masks       kinds of masks that SDPA got
    kernels     attention kernels, the longest first
    rows        that fit, where the case asks for them
    block       seconds of the case's block
    ready       seconds until the end of the first step, with building and compiling
    """

    status: Status
    note: str = ""
    rounds: tuple[tuple[float, ...], ...] = ()
    tokens: int = 0
    samples: int = 0
    peak: int | None = None
    driver: bool = False
    saved: int | None = None
    losses: tuple[float, float] | None = None
    deviation: tuple[float, float, float] | None = None
    masks: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    rows: int | None = None
    block: tuple[float, ...] = ()
    ready: float | None = None

    @property
    def counts(self) -> bool:
        """Return whether its times may be compared."""
        return self.status in ("ok", "partial") and any(self.rounds)

    @property
    def step(self) -> Quartiles:
        """Return the seconds of a step over all rounds."""
        return quartiles([seconds for timed_round in self.rounds for seconds in timed_round])

    @property
    def speed(self) -> Quartiles:
        """Return the real tokens per second."""
        step = self.step
        return Quartiles(self.tokens / step.high, self.tokens / step.median, self.tokens / step.low)

    @property
    def drift(self) -> float:
        """Return the relative difference of the medians of rounds, which shows a changed clock."""
        medians = [quartiles(timed_round).median for timed_round in self.rounds if timed_round]
        return max(medians) / min(medians) - 1 if medians else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the values that are known."""
        return {
            name: value for name, value in asdict(self).items() if value not in (None, "", (), 0)
        }


def from_json(fields: dict[str, Any]) -> Result:
    """Return the result that `Result.as_json` wrote."""
    return Result(**{name: _tuples(value) for name, value in fields.items()})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(one) for one in value) if isinstance(value, list) else value
