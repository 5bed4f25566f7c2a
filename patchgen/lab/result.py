"""What came of one case of `patchgen verify`: a value that goes through a pipe, into a table and into JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Status = Literal["PASS", "WARN", "FAIL", "NONE"]  # NONE: there is nothing to compare, and `note` says why


@dataclass(frozen=True, slots=True)
class Result:
    """One case.  `unit` is "relative" (to a tensor's largest entry) or "noises" (of the parent, in a narrow dtype)."""

    variant: str
    case: str
    status: Status
    apart: float | None = None  # the largest difference
    bound: float | None = None
    seen: float | None = None  # the smallest planted error of this dtype, in the same unit
    unit: str = ""
    note: str = ""
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """For JSON, which has no infinity."""
        told = asdict(self)
        return {name: str(value) if value in (float("inf"),) else value for name, value in told.items()}

    def __str__(self) -> str:
        numbers = [f"{self.apart:.2e} apart"] if self.apart is not None else []
        numbers += [f"{self.bound:.2e} allowed"] if self.bound is not None else []
        numbers += [f"{self.seen:.2e} the smallest planted error"] if self.seen is not None else []
        told = f" ({self.unit}: {', '.join(numbers)})" if numbers else ""
        return f"{self.status} {self.variant} {self.case}{told}{': ' if self.note else ''}{self.note}"


def counts(results: Iterable[Result]) -> dict[str, int]:
    """How many of each status, in this order."""
    found = Counter(result.status for result in results)
    return {status: found[status] for status in ("PASS", "WARN", "FAIL", "NONE")}


def unproven(variants: Iterable[str], results: Iterable[Result]) -> tuple[str, ...]:
    """Those of `variants` of which no number was held against anything: each case is NONE, or of something else."""
    shown = {each.variant for each in results if each.apart is not None and " planted: " not in each.case}
    return tuple(name for name in variants if name not in shown)


def from_json(told: dict[str, Any]) -> Result:
    """The inverse of `as_json`."""
    for name in ("apart", "bound", "seen"):
        told[name] = None if told[name] is None else float(told[name])
    return Result(**told)
