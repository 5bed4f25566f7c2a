"""How a model is trained: what decides the memory of a step, besides the model itself."""

from __future__ import annotations

from dataclasses import dataclass

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training import precision
from patchgen.training.memory.layout import Layout

OPTIMIZERS = ("sgd", "momentum", "adamw", "adamw-foreach", "adafactor")
CHECKPOINTS = ("none", "full", "selective")
DEVICES = ("cpu", "cuda")

_WHY = dict.fromkeys(
    ("adamw-8bit", "8bit", "adamw_8bit", "adamw_bnb_8bit", "paged_adamw_8bit"),
    "8-bit states need bitsandbytes and a GPU: they are neither predicted nor measured here",
)


def setup_error(switch: str, what: str, hint: str = "") -> PatchgenError:
    """Return problem PG825 of a switch, to be raised."""
    return PatchgenError("PG825", Location(switch), what, hint)


@dataclass(frozen=True, slots=True)
class Setup:
    """One way to train.

    Precisions are those of `patchgen.training.precision`; with ZeRO, "fsdp-mixed" is DeepSpeed's
    own bf16.  Each of `accumulate` forward and backward passes has `batch` rows of `length` tokens,
    on each rank of `layout`.  Ranks that compute the same rows together share them.
    """

    batch: int = 1
    length: int = 512
    precision: str = "fp32"
    optimizer: str = "adamw"
    checkpoint: str = "none"
    every: int = 1  # every how many layers one is checkpointed
    accumulate: int = 1
    attention: str = ""  # "": the model's default
    device: str = "cpu"
    layout: Layout | None = None

    def __post_init__(self) -> None:
        """Raise PatchgenError PG825 for unknown values."""
        known = {
            "precision": precision.NAMES,
            "optimizer": OPTIMIZERS,
            "checkpoint": CHECKPOINTS,
            "device": DEVICES,
        }
        for name, values in known.items():
            value = getattr(self, name)
            if value not in values:
                raise setup_error(
                    f"--{name} {value}",
                    _WHY.get(value, "is not known"),
                    f"there are {', '.join(values)}",
                )
        self._check_precision()
        if self.every > 1 and self.checkpoint == "none":
            what = "says which layers are checkpointed, and --checkpoint says that none is"
            raise setup_error(f"--every {self.every}", what, "--checkpoint full")

    def _check_precision(self) -> None:
        computed = self.layout is not None and self.layout.computed
        sharded = self.layout is not None and (computed or self.layout.parts.fsdp > 1)
        if self.precision == "fsdp-mixed" and not sharded:
            what = "is of engines that gather weights"
            hint = "--engine fsdp2, ep, zero3 and their like; amp-bf16 needs none"
            raise setup_error("--precision fsdp-mixed", what, hint)
        if computed and self.precision not in ("fp32", "amp-bf16", "fsdp-mixed"):
            what = "DeepSpeed has fp32, amp-bf16, and its own bf16, which is fsdp-mixed here"
            raise setup_error(f"--precision {self.precision}", what, "--precision amp-bf16")

    @property
    def tokens(self) -> int:
        """Return the tokens of one forward pass."""
        return self.batch * self.length

    def describe(self) -> str:
        """Return a description."""
        parts = [f"batch {self.batch}", f"length {self.length}", self.precision, self.optimizer]
        if self.attention:
            parts.append(f"{self.attention} attention")
        if self.checkpoint != "none":
            parts.append(
                f"{self.checkpoint} checkpointing"
                + (f" of every {self.every} layers" if self.every > 1 else "")
            )
        if self.accumulate > 1:
            parts.append(f"{self.accumulate} accumulated")
        if self.layout is not None:
            parts.append(self.layout.describe())
        return ", ".join([*parts, self.device])
