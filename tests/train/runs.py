"""Runs that are short enough for several in one test: a tiny model, a few steps, no checkpoint."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers import TrainerCallback
from transformers.trainer import DEFAULT_CALLBACKS

from patchgen.training.loop.options import parse
from patchgen.training.loop.run import train

TEXT = Path(__file__).with_name("short.txt")
SHORT: dict[str, Any] = {
    "tiny": True,
    "data": [str(TEXT)],
    "max_steps": 4,
    "length": 32,
    "logging_steps": 1,
    "save_strategy": "no",
}


def words(**arguments: object) -> list[str]:
    """The command line of some arguments."""
    argv: list[str] = []
    for name, value in arguments.items():
        if value is None:
            continue
        values = value if isinstance(value, list) else [value]
        values = [json.dumps(each) if isinstance(each, dict) else str(each) for each in values]
        argv += [f"--{name}"] if value is True else [f"--{name}", *values]
    return argv


def run(folder: Path, model: str = "llama_loss", **arguments: object) -> dict[str, Any]:
    """Train, and return the final figures."""
    rest = {**SHORT, **arguments, "output_dir": folder}
    if not rest["tiny"]:
        rest["tiny"] = None
    if "save_steps" in arguments:
        rest["save_strategy"] = "steps"
    return train(*parse([model, *words(**rest)]))


def resume(folder: Path, start: str | Path = "last", **arguments: object) -> dict[str, Any]:
    """Go on with a run."""
    asked = [str(folder / "arguments.json"), *words(resume_from_checkpoint=start, **arguments)]
    return train(*parse(asked))


def broken_run(
    folder: Path, model: str = "llama_loss", after: int = 3, **arguments: object
) -> Path:
    """A run that was broken off after a step."""
    with doing(after, interrupt), contextlib.suppress(KeyboardInterrupt):
        run(folder, model, **arguments)
    return folder


def interrupt() -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def doing(after: int, what: Any) -> Iterator[None]:
    """Every Trainer does something after a step."""

    class Does(TrainerCallback):
        def on_step_end(self, args, state, control, **rest):
            if state.global_step == after:
                what()

    with seen_by(Does):
        yield


@contextlib.contextmanager
def seen_by(callback: type[TrainerCallback]) -> Iterator[None]:
    DEFAULT_CALLBACKS.append(callback)
    try:
        yield
    finally:
        DEFAULT_CALLBACKS.remove(callback)


def weights(folder: Path) -> bytes:
    """Of the trained model, as they are on the disk."""
    return next(folder.glob("*.safetensors")).read_bytes()


def history(folder: Path) -> list[dict[str, float]]:
    return json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]


def losses(folder: Path) -> list[float]:
    """Of each step, as it was logged."""
    return [entry["loss"] for entry in history(folder) if "loss" in entry]
