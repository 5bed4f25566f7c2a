"""Parses `--engine` and the environment of a launcher into an `Engine`.

Whether the machine supports it is checked in `process_group`, whether a model can be distributed in
`distribute`, and what really runs in `engine_check`.

A launcher starts one process for each device, and numbers them by rank, from 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from patchgen.syntax.errors import Location, PatchgenError, did_you_mean

AUTO = "auto"
# What the processes divide: nothing; rows; also weights; the matrices of a layer; whole experts
# and all other weights; whole experts and all other matrices; weights, among groups that divide
# matrices.  With DeepSpeed: the optimizer's states; also gradients; also weights.
NAMES = ("single", "ddp", "fsdp2", "tp", "ep", "tp+ep", "fsdp2+tp", "zero1", "zero2", "zero3")
LAUNCHED = ("WORLD_SIZE", "RANK", "LOCAL_RANK")
OPTIONS = ("size", "timeout", "offload", "mixed")
OFFLOADS = ("optimizer", "parameters")
MIXED = ("fsdp2", "ep", "fsdp2+tp")  # what has been shown to gather weights in bfloat16
TIMEOUT = 600  # seconds that a process waits for the others
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
    fsdp: int = 1  # processes that each have a part of every weight, and their own rows
    tp: int = 1  # processes that compute the same rows together
    ep: int = 1  # processes among which the experts are divided
    timeout: int = TIMEOUT
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
        return self.name not in ("single", "ddp") and not self.zero_stage

    @property
    def data_groups(self) -> int:
        """Return the number of processes, or groups of them, with rows of their own."""
        return self.launch.world // self.tp


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
    """Return the engine that `--engine` names, such as `tp` or `fsdp2+tp,size=2`.

    `auto` is one process alone, or DDP on several.  Raises PatchgenError PG830 for text that cannot
    be parsed, PG831 for a wrong number of processes, and PG833 where the launcher configures an
    engine of its own.
    """
    launch = read_launch(environment)
    name, values = _read(text, launch)
    brought = [key for key in CONFIGURED if environment.get(key, "").lower() in ("1", "true")]
    if brought:
        what = f"{brought[0]} is set: the launcher is configured to use another engine"
        raise PatchgenError(
            "PG833", _at(text), what, "launch without it; --engine fsdp2 shards by itself"
        )
    if ADDRESS in environment and LAUNCHED[0] not in environment and ACCELERATED in environment:
        what = "accelerate launch was asked for several processes, and has started only this one"
        hint = "accelerate launch --multi_gpu starts them, on a CPU too; or use torchrun"
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
    sized = _sized(text, name, launch, values["size"], values["timeout"])
    return replace(sized, mixed=values["mixed"])


def _at(text: str) -> Location:
    return Location(f"--engine {text}")


def _read(text: str, launch: Launch) -> tuple[str, dict[str, Any]]:
    """Return the name and the options; size 0 means that none is given."""
    name, *items = text.split(",")
    if name == AUTO:
        name = "ddp" if launch.world > 1 else "single"
    if name not in NAMES:
        hint = did_you_mean(name, NAMES) or f"there are {', '.join(NAMES)}"
        raise PatchgenError("PG830", _at(text), f"{name} is no engine", hint)
    values: dict[str, Any] = {"size": 0, "timeout": TIMEOUT, "offload": "", "mixed": False}
    for item in items:
        key, _, value = item.partition("=")
        if key not in OPTIONS:
            raise PatchgenError(
                "PG830", _at(text), f"{key} is no option", f"it takes {', '.join(OPTIONS)}"
            )
        if key == "offload":
            values[key] = value
            continue
        if item == "mixed":
            if name not in MIXED:
                what = f"{name} gathers no weights in bfloat16"
                raise PatchgenError("PG830", _at(text), what, f"{', '.join(MIXED)} do")
            values[key] = True
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
    """Return what is kept in CPU memory; raise PG830 where the ZeRO stage does not support it."""
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
    """Return the engine with the sizes of its groups; raise PG831 where they are not even."""
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
                what = f"{world} processes cannot be divided into groups of {group} for experts"
                raise PatchgenError(
                    "PG831", _at(text), what, "a size that divides the number of processes"
                )
            return Engine(name, launch, fsdp=world, ep=group, timeout=timeout)
    if not size or world % size or size in (1, world):
        what = f"{world} processes are not several groups of {size or 'an unknown size'}"
        hint = "size=N processes compute the same rows; it divides the number of processes"
        raise PatchgenError("PG831", _at(text), what, hint)
    return Engine(name, launch, fsdp=world // size, tp=size, timeout=timeout)
