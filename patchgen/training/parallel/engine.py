"""Which engine is asked for: `--engine`, and what a launcher says of the processes, as one value.

In: the text of the switch and the environment that torchrun or accelerate made.  Out: an `Engine`.  Whether the
machine has it is asked in `meet`, whether a model can be laid out so in `spread`, and what really runs in `asserted`.

Legend: a process is what a launcher starts, one for each device; the launcher counts them by rank, from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchgen.errors import Location, PatchgenError, did_you_mean

AUTO = "auto"
# What each shares among processes: nothing; rows alone; weights too; the matrices of a layer; whole experts, and
# of all else the weights; experts, and the matrices of all else; weights, among groups that share matrices;
# by DeepSpeed, what the optimizer updates, gradients too, weights too.
NAMES = ("single", "ddp", "fsdp2", "tp", "ep", "tp+ep", "fsdp2+tp", "zero1", "zero2", "zero3")
LAUNCHED = ("WORLD_SIZE", "RANK", "LOCAL_RANK")
OPTIONS = ("size", "timeout", "offload")
OFFLOADS = ("optimizer", "parameters")
TIMEOUT = 600  # seconds that a process waits for the others
LAUNCH = "torchrun --nproc-per-node 2 -m patchgen train ... starts two processes"
ADDRESS = "MASTER_ADDR"  # of several processes, where they meet
ACCELERATED = "ACCELERATE_MIXED_PRECISION"  # what `accelerate launch` always sets
# What it sets where it has been told to bring an engine of its own.
CONFIGURED = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_MEGATRON_LM")


@dataclass(frozen=True, slots=True)
class Launch:
    """How many processes there are, and which one this is: of all, and of its machine."""

    world: int = 1
    rank: int = 0
    local_rank: int = 0


@dataclass(frozen=True, slots=True)
class Engine:
    """What shares the work of a run among its processes."""

    name: str = "single"
    launch: Launch = Launch()
    fsdp: int = 1  # processes that each hold a part of every weight, and see rows of their own
    tp: int = 1  # processes that compute the same rows together
    ep: int = 1  # processes among which the experts of a mixture are spread
    timeout: int = TIMEOUT
    mixed: bool = (
        False  # weights are gathered in bfloat16, gradients summed in float32; not of `--engine`
    )
    offload: str = ""  # what ZeRO keeps in the memory of the CPU: the optimizer's states, or with them the parameters

    @property
    def zero_stage(self) -> int:
        """Of DeepSpeed's ZeRO; 0 for every other engine."""
        return int(self.name.removeprefix("zero")) if self.name.startswith("zero") else 0

    @property
    def is_distributed(self) -> bool:
        """Whether there is more than one process."""
        return self.launch.world > 1

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes and tells."""
        return self.launch.rank == 0

    @property
    def shards_weights(self) -> bool:
        """Whether no process holds all weights, and torch's DTensor says which."""
        return self.name not in ("single", "ddp") and not self.zero_stage

    @property
    def gathers_weights(self) -> bool:
        """Whether FSDP2 makes a layer's weights whole before it computes."""
        return self.shards_weights and self.fsdp > 1

    @property
    def weight_shards(self) -> int:
        """Among how many processes each matrix is shared; 1 where every process holds all of it."""
        return self.launch.world if self.zero_stage == 3 else self.fsdp * self.tp

    @property
    def data_groups(self) -> int:
        """Processes, or groups of them, that see rows of their own."""
        return self.launch.world // self.tp


def read_launch(environment: Mapping[str, str]) -> Launch:
    """What the launcher says; one process where there is none.  Raises PatchgenError PG831 for what is no number."""
    try:
        told = dict(zip(LAUNCHED, ("1", "0", "0"), strict=True)) | dict(environment)
        world, rank, local = (int(told[name]) for name in LAUNCHED)
    except ValueError as error:
        raise PatchgenError(
            "PG831", Location("patchgen train"), f"the launcher's environment: {error}"
        ) from error
    return Launch(world, rank, local)


def parse_engine(text: str, environment: Mapping[str, str]) -> Engine:
    """The engine that `--engine` names: `tp`, `fsdp2+tp,size=2`; for `auto` one process alone, and DDP of several.

    Raises PatchgenError: PG830 for what cannot be read, PG831 for processes that do not fit, PG833 where the launcher
    was told to bring another engine.
    """
    launch = read_launch(environment)
    name, values = _read(text, launch)
    brought = [key for key in CONFIGURED if environment.get(key, "").lower() in ("1", "true")]
    if brought:
        what = f"{brought[0]} is set: the launcher brings an engine of its own, which is not the one that would run"
        raise PatchgenError(
            "PG833", _at(text), what, "launch without it; --engine fsdp2 shards by itself"
        )
    if ADDRESS in environment and LAUNCHED[0] not in environment and ACCELERATED in environment:
        what = "accelerate launch was told of several processes, and has started this one alone"
        hint = "accelerate launch --multi_gpu starts them, on a CPU too; --cpu does not; or take torchrun"
        raise PatchgenError("PG831", _at(text), what, hint)
    if name == "single" and launch.world > 1:
        what = f"{launch.world} processes were launched, and each would train the same run"
        raise PatchgenError("PG831", _at(text), what, "--engine ddp, or launch no more than one")
    if name != "single" and launch.world == 1:
        raise PatchgenError(
            "PG831", _at(text), "shares work among processes, and this is one alone", LAUNCH
        )
    if name.startswith("zero"):
        return Engine(
            name, launch, timeout=values["timeout"], offload=_offload(text, name, values["offload"])
        )
    return _sized(text, name, launch, values["size"], values["timeout"])


def _at(text: str) -> Location:
    return Location(f"--engine {text}")


def _read(text: str, launch: Launch) -> tuple[str, dict[str, Any]]:
    """Name and options (size 0: not said)."""
    name, *items = text.split(",")
    if name == AUTO:
        name = "ddp" if launch.world > 1 else "single"
    if name not in NAMES:
        hint = did_you_mean(name, NAMES) or f"there are {', '.join(NAMES)}"
        raise PatchgenError("PG830", _at(text), f"{name} is no engine", hint)
    values: dict[str, Any] = {"size": 0, "timeout": TIMEOUT, "offload": ""}
    for item in items:
        key, _, value = item.partition("=")
        if key not in OPTIONS:
            raise PatchgenError(
                "PG830", _at(text), f"{key} is no option", f"it takes {', '.join(OPTIONS)}"
            )
        if key == "offload":
            values[key] = value
            continue
        if not (value.isdecimal() and int(value)):
            raise PatchgenError(
                "PG830", _at(text), f"{value or 'nothing'} is no value of {key}: a number from 1"
            )
        values[key] = int(value)
    if values["size"] and not {"tp", "ep"} & set(name.split("+")):
        hint = "all processes are in it; tp, ep and what is joined with them have a size"
        raise PatchgenError("PG830", _at(text), f"{name} has no size", hint)
    if "offload" in text and not name.startswith("zero"):
        raise PatchgenError(
            "PG830", _at(text), f"{name} offloads nothing", "zero1, zero2 and zero3 do"
        )
    return name, values


def _offload(text: str, name: str, value: str) -> str:
    """What is kept in the memory of the CPU.  PG830 where ZeRO's stage does not keep it there."""
    if ",offload" in text and value not in OFFLOADS:
        what = f"{value or 'nothing'} is not what can be offloaded"
        raise PatchgenError("PG830", _at(text), what, f"offload={' or offload='.join(OFFLOADS)}")
    if value == "parameters" and name != "zero3":
        hint = "zero3 spreads them; offload=optimizer goes with every stage"
        raise PatchgenError(
            "PG830", _at(text), f"the parameters of {name} are whole on each device", hint
        )
    return value


def _sized(text: str, name: str, launch: Launch, size: int, timeout: int) -> Engine:
    """How many processes are in which group.  PG831 where they do not come out even."""
    world = launch.world
    group = size or world
    match name:
        case "single" | "ddp":
            return Engine(name, launch, timeout=timeout)
        case "fsdp2":
            return Engine(name, launch, fsdp=world, timeout=timeout)
        case "tp" | "tp+ep":
            if group != world:
                hint = (
                    f"--engine fsdp2+tp,size={group}" if name == "tp" and world % group == 0 else ""
                )
                what = f"a group of {group} is not the {world} processes that were launched"
                raise PatchgenError("PG831", _at(text), what, hint or f"launch {group} processes")
            return Engine(name, launch, tp=world, ep=1 if name == "tp" else world, timeout=timeout)
        case "ep":
            if world % group or group == 1:
                what = f"{world} processes do not come out even in groups of {group} that share experts"
                raise PatchgenError(
                    "PG831", _at(text), what, "a size that divides the number of processes"
                )
            return Engine(name, launch, fsdp=world, ep=group, timeout=timeout)
    if not size or world % size or size in (1, world):
        what = f"{world} processes are not several groups of {size or 'an unknown size'}"
        hint = "size=N is the number of processes that compute the same rows, 2 or more, of at least twice as many"
        raise PatchgenError("PG831", _at(text), what, hint)
    return Engine(name, launch, fsdp=world // size, tp=size, timeout=timeout)
