"""On what does the run go: one device of one process.

Under a launcher (`torchrun`, `accelerate launch`, `deepspeed`) Trainer would take up its engine.  That is refused as
long as no run has been proved to be what the launcher asked for.
"""

from __future__ import annotations

import os

import torch

from patchgen.errors import Location, PatchgenError
from patchgen.train.recipe import AUTO
from patchgen.train.switches import refuse

LAUNCHED = "WORLD_SIZE"  # what every launcher sets
CONFIGURED = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")


def device_of(asked: str) -> str:
    """ "cuda" or "cpu".  Raises PatchgenError PG814 for a device that is not there, and for several processes."""
    several = int(os.environ.get(LAUNCHED, "1"))
    engines = [name for name in CONFIGURED if os.environ.get(name, "").lower() in ("1", "true")]
    if several > 1 or engines:
        told = f"{several} processes are launched" if several > 1 else f"{engines[0]} is set"
        raise PatchgenError("PG814", Location("patchgen train"), f"{told}, and it runs on one device of one process")
    if asked == "cuda" and not torch.cuda.is_available():
        refuse("device", asked, "this torch sees no CUDA device", code="PG814")
    if asked == AUTO:
        return "cuda" if torch.cuda.is_available() else "cpu"
    return asked
