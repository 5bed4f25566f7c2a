"""Tells complete checkpoints of a run from unfinished and damaged ones.

A file with the digest of every other file, the seal, is written last.  A checkpoint without a seal
is unfinished; one whose files differ from its seal is damaged.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from patchgen import disk
from patchgen.syntax.errors import Location, PatchgenError

SEAL = "whole.json"
_NAME = re.compile(rf"{PREFIX_CHECKPOINT_DIR}-(\d+)")


def checkpoint_step(folder: Path) -> int:
    """Return the step after which the folder was written; -1 if it is no checkpoint."""
    found = _NAME.fullmatch(folder.name)
    return int(found[1]) if found else -1


def list_checkpoints(run: Path) -> tuple[Path, ...]:
    """Return the checkpoints of a run in the order of their steps, unfinished ones too."""
    folders = [each for each in run.glob("*") if each.is_dir() and checkpoint_step(each) >= 0]
    return tuple(sorted(folders, key=checkpoint_step))


def complete_checkpoints(run: Path) -> tuple[Path, ...]:
    """Return the checkpoints with a seal, in the order of their steps."""
    return tuple(folder for folder in list_checkpoints(run) if (folder / SEAL).is_file())


def write_seal(folder: Path) -> None:
    """Record the size and digest of each file of the checkpoint."""
    seal = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != SEAL:
            name = path.relative_to(folder).as_posix()
            seal[name] = [path.stat().st_size, disk.digest_of_data(path)]
    disk.write(folder / SEAL, json.dumps(seal, indent=1) + "\n", folder)


def find_damage(folder: Path) -> str:
    """Return how a sealed checkpoint differs from its seal; "" where it does not."""
    try:
        seal = disk.read_json(folder / SEAL)
    except (OSError, ValueError) as error:
        return f"{SEAL} cannot be read: {error}"
    for name, (size, digest) in seal.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes instead of {size}"
        if disk.digest_of_data(path) != digest:
            return f"{name} has changed"
    return ""


def discard_unfinished(run: Path) -> tuple[Path, ...]:
    """Remove and return the unfinished checkpoints."""
    unfinished = set(list_checkpoints(run)) - set(complete_checkpoints(run))
    for folder in unfinished:
        disk.remove_folder(folder, run)
    return tuple(unfinished)


def clear_checkpoint(folder: Path) -> None:
    """Remove a checkpoint before it is written again.

    Files that another engine has left in it would be loaded with the new ones.
    """
    # First, so that a killed process leaves an unfinished checkpoint.
    disk.remove(folder / SEAL, folder)
    disk.remove_folder(folder, folder.parent)


def find_checkpoint(run: str | Path) -> Path | None:
    """Return the last sealed checkpoint of a run; None where there is none.

    `run` may also be one of its checkpoints.  Raises PatchgenError PG818 for a damaged one; the
    hint names the last checkpoint before it that is whole.
    """
    run = Path(run)
    named = checkpoint_step(run) >= 0
    sealed = complete_checkpoints(run.parent if named else run)
    if named and run not in sealed:
        there = ", ".join(str(checkpoint_step(folder)) for folder in sealed) or "none"
        what = f"is no whole checkpoint; of its run, those of these steps are: {there}"
        raise PatchgenError("PG818", Location(str(run)), what)
    if not sealed:
        return None
    chosen = run if named else sealed[-1]
    if wrong := find_damage(chosen):
        earlier = sealed[: sealed.index(chosen)]
        before = [folder for folder in earlier if not find_damage(folder)]
        hint = f"--resume_from_checkpoint {before[-1]} is whole" if before else "begin anew"
        raise PatchgenError("PG818", Location(str(chosen)), f"is damaged: {wrong}", hint)
    return chosen
