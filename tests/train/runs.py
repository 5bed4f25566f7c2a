"""Runs that are short enough for several in one test: a tiny model, a few steps, no checkpoint."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from patchgen.training.loop.folder import RunFolder, create_folder
from patchgen.training.loop.recipe import Recipe
from patchgen.training.loop.run import TrainingResult, train

# A tenth of the shipped text: reading and evaluating all of it takes half of a run's time.
TEXT = Path(__file__).with_name("short.txt")
SHORT = {
    "tiny": True,
    "data": (str(TEXT),),
    "steps": 4,
    "length": 32,
    "log_every": 1,
    "eval_every": 0,
    "save_every": 0,
}


class Remembered:
    """Who looks on, and remembers."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.done: list[int] = []

    def steps(self, done: int, of: int) -> None:
        self.done.append(done)

    def report(self, figures: Mapping[str, float]) -> None:
        pass

    def note(self, text: str) -> None:
        self.notes.append(text)


class Broken(Remembered):
    """Breaks off after a step, as a person does with control-C."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def steps(self, done: int, of: int) -> None:
        super().steps(done, of)
        if done == self.after:
            raise KeyboardInterrupt


def recipe(model: str = "llama_loss", **switches: object) -> Recipe:
    labels = (
        {"data": ()} if switches.get("task") == "classification" else {}
    )  # each of the books shipped is one
    return Recipe(**{"model": model, **SHORT, **labels, **switches})


def run(
    folder: Path, model: str = "llama_loss", watch: Remembered | None = None, **switches: object
) -> TrainingResult:
    asked = recipe(model, **switches)
    return train(asked, create_folder(str(folder), asked), watch or Remembered())


def broken_run(
    folder: Path, model: str = "llama_loss", after: int = 8, **switches: object
) -> RunFolder:
    """A run that was broken off."""
    with contextlib.suppress(KeyboardInterrupt):
        run(folder, model, Broken(after), **switches)
    return RunFolder(folder)


def resume(
    folder: RunFolder, watch: Remembered | None = None, at: int | None = None
) -> TrainingResult:
    return train(folder.recipe(), folder, watch or Remembered(), resume=True, at=at)


def weights(folder: Path) -> bytes:
    """Of the trained model, as they are on the disk."""
    return next((folder / "model").glob("*.safetensors")).read_bytes()


def losses(folder: Path) -> list[float]:
    """Of each step, as it was logged."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [figures["loss"] for figures in map(json.loads, lines) if "loss" in figures]
