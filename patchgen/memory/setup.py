"""How a model is trained: everything that decides how much memory a step takes, besides the model itself."""

from __future__ import annotations

from dataclasses import dataclass

PRECISIONS = ("fp32", "bf16", "autocast")
OPTIMIZERS = ("sgd", "momentum", "adamw", "adamw-foreach", "adafactor")
CHECKPOINTS = ("none", "full", "selective")
DEVICES = ("cpu", "cuda")

_WHY = dict.fromkeys(
    ("adamw-8bit", "8bit", "adamw_8bit", "adamw_bnb_8bit", "paged_adamw_8bit"),
    "the 8-bit states are bitsandbytes' own, which needs a GPU: neither predicted nor measured here; ",
)


@dataclass(frozen=True, slots=True)
class Setup:
    """One way to train.

    "fp32" and "bf16" are the type of weights, gradients and states; "autocast" is float32 weights, and bfloat16 where
    torch computes in it.  Each of `accumulate` forward and backward passes sees `batch` rows of `length`.
    """

    batch: int = 1
    length: int = 512
    precision: str = "fp32"
    optimizer: str = "adamw"
    checkpoint: str = "none"
    every: int = 1  # of the layers, each how many-th is checkpointed
    accumulate: int = 1
    attention: str = ""  # "": what the model takes by itself
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Raises ValueError for what is not known here."""
        known = {"precision": PRECISIONS, "optimizer": OPTIMIZERS, "checkpoint": CHECKPOINTS, "device": DEVICES}
        for name, values in known.items():
            value = getattr(self, name)
            if value not in values:
                raise ValueError(f"--{name} {value}: {_WHY.get(value, '')}there are {', '.join(values)}")
        if self.every > 1 and self.checkpoint == "none":
            raise ValueError("--every says which layers are checkpointed, and --checkpoint says that none is")

    @property
    def tokens(self) -> int:
        """Of one forward pass."""
        return self.batch * self.length

    def told(self) -> str:
        """In words."""
        parts = [f"batch {self.batch}", f"length {self.length}", self.precision, self.optimizer]
        if self.attention:
            parts.append(f"{self.attention} attention")
        if self.checkpoint != "none":
            parts.append(f"{self.checkpoint} checkpointing" + (f" of each {self.every}." if self.every > 1 else ""))
        if self.accumulate > 1:
            parts.append(f"{self.accumulate} accumulated")
        return ", ".join([*parts, self.device])
