"""Parses `--engine` and the environment of a launcher into an `Engine`.

Whether the machine supports it is checked in `process_group`, whether a model can be distributed in
`distribute`, and what really runs in `engine_check`.

A launcher starts one process for each device, and numbers them by rank, from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from patchgen.syntax.errors import Location, PatchgenError, did_you_mean

AUTO = "auto"
# What the processes divide: nothing; rows; also weights; the matrices of a layer; whole experts
# and all other weights.  With DeepSpeed: the optimizer's states; also gradients; also weights.
NAMES = ("single", "ddp", "fsdp2", "tp", "ep", "zero1", "zero2", "zero3")
SHARDED = ("fsdp2", "ep")
# What may follow the name, and which engines take it: `fsdp2,mixed`.
OPTIONS = {
    "mixed": SHARDED,
    "offload=optimizer": ("zero1", "zero2", "zero3"),
    "offload=parameters": ("zero3",),
}
LAUNCHED = ("WORLD_SIZE", "RANK", "LOCAL_RANK")
LAUNCH = "torchrun --nproc-per-node 2 -m patchgen train ... starts two processes"
ADDRESS = "MASTER_ADDR"  # where several processes connect to each other
ACCELERATED = "ACCELERATE_MIXED_PRECISION"  # what `accelerate launch` always sets
# What it sets where it is configured to use an engine of its own.
CONFIGURED = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_MEGATRON_LM")


@dataclass(frozen=True, slots=True)
class Launch:
    """The number of processes, and the rank of this one: of all, and on its machine."""

    world: int = 1
    rank: int = 0
    local_rank: int = 0


@dataclass(frozen=True, slots=True)
class Engine:
    """How the processes of a run share its work."""

    name: str = "single"
    launch: Launch = Launch()
    # Float32 weights are gathered in bfloat16, and gradients summed in float32; None: not asserted.
    mixed: bool | None = False
    offload: str = ""  # what ZeRO keeps in CPU memory: "optimizer", or "parameters" too

    @property
    def zero_stage(self) -> int:
        """Return the stage of DeepSpeed's ZeRO; 0 for every other engine."""
        return int(self.name.removeprefix("zero")) if self.name.startswith("zero") else 0

    @property
    def is_distributed(self) -> bool:
        """Return whether there is more than one process."""
        return self.launch.world > 1

    @property
    def is_first(self) -> bool:
        """Return whether this is the process that writes and reports."""
        return self.launch.rank == 0

    @property
    def shards_weights(self) -> bool:
        """Return whether each process has a part of the weights only, as DTensors."""
        return self.name in (*SHARDED, "tp")

    @property
    def data_groups(self) -> int:
        """Return the number of processes with rows of their own; under `tp` all have the same."""
        return 1 if self.name == "tp" else self.launch.world

    @property
    def layout(self) -> str:
        """Return what can go on with its checkpoints; whole weights fit any number of processes."""
        spread = self.shards_weights or self.zero_stage
        return f"{self.name} on {self.launch.world} processes" if spread else "ddp or single"


def read_launch(environment: Mapping[str, str]) -> Launch:
    """Return what the launcher's environment says; one process where there is no launcher.

    Raises PatchgenError PG831 for a value that is no number.
    """
    try:
        values = dict(zip(LAUNCHED, ("1", "0", "0"), strict=True)) | dict(environment)
        world, rank, local = (int(values[name]) for name in LAUNCHED)
    except ValueError as error:
        raise PatchgenError(
            "PG831", Location("patchgen train"), f"the launcher's environment: {error}"
        ) from error
    return Launch(world, rank, local)


def parse_engine(text: str, environment: Mapping[str, str]) -> Engine:
    """Return the engine that `--engine` names, such as `tp` or `zero3,offload=parameters`.

    `auto` is one process alone, or DDP on several.  Raises PatchgenError PG830 for text that cannot
    be parsed, PG831 for a wrong number of processes, and PG833 where the launcher configures an
    engine of its own.
    """
    launch = read_launch(environment)
    name, *options = text.split(",")
    if name == AUTO:
        name = "ddp" if launch.world > 1 else "single"

    def refuse(code: str, what: str, hint: str) -> PatchgenError:
        return PatchgenError(code, Location(f"--engine {text}"), what, hint)

    if name not in NAMES:
        hint = did_you_mean(name, NAMES) or f"there are {', '.join(NAMES)}"
        raise refuse("PG830", f"{name} is no engine", hint)
    for option in options:
        if name not in OPTIONS.get(option, ()):
            takes = [each for each, names in OPTIONS.items() if name in names]
            hint = f"it takes {' or '.join(takes) or 'nothing'}"
            raise refuse("PG830", f"{name} takes no {option or 'empty option'}", hint)
    if brought := [key for key in CONFIGURED if environment.get(key, "").lower() in ("1", "true")]:
        what = f"{brought[0]} is set: the launcher is configured to use another engine"
        raise refuse("PG833", what, "launch without it; --engine fsdp2 shards by itself")
    if ADDRESS in environment and LAUNCHED[0] not in environment and ACCELERATED in environment:
        what = "accelerate launch was asked for several processes, and has started only this one"
        hint = "accelerate launch --multi_gpu starts them, on a CPU too; or use torchrun"
        raise refuse("PG831", what, hint)
    if name == "single" and launch.world > 1:
        what = f"{launch.world} processes were launched, and each would train the same run"
        raise refuse("PG831", what, "--engine ddp, or launch no more than one")
    if name != "single" and launch.world == 1:
        raise refuse("PG831", "shares work among processes, and this is one alone", LAUNCH)
    offloads = [each.removeprefix("offload=") for each in options if each.startswith("offload=")]
    return Engine(name, launch, "mixed" in options, (offloads or [""])[-1])
