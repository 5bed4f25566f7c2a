"""The folder of a run.

recipe.json     the recipe
run.json        batch size, text and sizes of the run; device and releases of each attempt
metrics.jsonl   a line for each time that Trainer logs
curve.svg       the loss curve, updated during the run
tokenizer/      the tokenizer
checkpoint-N/   a checkpoint, for `--resume`
model/          the trained model
result.json     the final figures; written when the run has ended
search.log      the trials of a search, which has no checkpoints and no model
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen.project.write import replace_file
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.loop.recipe import Recipe, recipe_of
from patchgen.training.parallel.engine import Engine
from patchgen.training.parallel.process_group import broadcast_from_first

RECIPE, FOUND, METRICS, CURVE, RESULT = (
    "recipe.json",
    "run.json",
    "metrics.jsonl",
    "curve.svg",
    "result.json",
)
KINDS = ("loss", "eval_loss", "train_loss")  # the figure that a logged line is about
TRIALS = "search.log"
ALONE = ".lock"
RUNS = "runs"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run.  One process `writes`; the others read what it wrote."""

    path: Path
    writes: bool = True

    @property
    def tokenizer(self) -> Path:
        """Return the folder of the tokenizer."""
        return self.path / "tokenizer"

    @property
    def model(self) -> Path:
        """Return the folder of the trained model."""
        return self.path / "model"

    @property
    def ended(self) -> bool:
        """Return whether the run has ended normally."""
        return (self.path / RESULT).is_file()

    def check_kind(self, *, search: bool) -> None:
        """Raise PG817 where a run is resumed as a search, or a search as a run."""
        if not self.found() or search == (self.path / TRIALS).is_file():
            return
        begun, hint = (
            ("run", "goes on without --search")
            if search
            else ("search", "--search ... goes on with it")
        )
        what = f"was started as a {begun}"
        raise PatchgenError(
            "PG817", Location(str(self.path)), what, f"patchgen train --resume {self.path} {hint}"
        )

    def write(self, name: str, content: str | Mapping[str, Any]) -> None:
        """Replace the content of the file `name` atomically."""
        if not self.writes:
            return
        text = content if isinstance(content, str) else json.dumps(content, indent=1) + "\n"
        replace_file(self.path / name, text.encode())

    def recipe(self) -> Recipe:
        """Return the recipe of the run; raise PG817 where there is none."""
        try:
            return recipe_of((self.path / RECIPE).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            what = f"is no run that can be resumed: {RECIPE}: {error}"
            raise PatchgenError("PG817", Location(str(self.path)), what) from error

    def found(self) -> dict[str, Any]:
        """Return the content of run.json; empty where there is none yet.

        Raises PG817 where it cannot be read.
        """
        path = self.path / FOUND
        try:
            found: dict[str, Any] = (
                json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
            )
        except ValueError as error:
            raise PatchgenError(
                "PG817", Location(str(path)), f"cannot be read: {error}", "begin a new run"
            ) from error
        return found

    def forget(self) -> None:
        """Remove what was written before training, and the folder if it is empty then."""
        if not self.writes:
            return
        shutil.rmtree(self.tokenizer, ignore_errors=True)
        for name in (RECIPE, ALONE):
            (self.path / name).unlink(missing_ok=True)
        with suppress(OSError):  # the folder has other files
            self.path.rmdir()

    def measure(self, figures: Mapping[str, float]) -> None:
        """Append a line of figures, after a line break if a full disk has cut the last line off."""
        with (self.path / METRICS).open("ab+") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            whole = file.read() in (b"", b"\n")
            file.write(f"{'' if whole else chr(10)}{json.dumps(figures)}\n".encode())

    def metrics(self) -> list[dict[str, float]]:
        """Return every logged line, only the last attempt's for each step.

        A line that was cut off is skipped.
        """
        path = self.path / METRICS
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.is_file() else []
        by_step: dict[tuple[float, float, str], dict[str, float]] = {}
        for line in lines:
            figures = _line(line)
            kind = next((name for name in KINDS if name in figures), "")
            if figures:
                by_step[figures.get("trial", 0), figures.get("step", 0), kind] = figures
        return sorted(by_step.values(), key=lambda figures: figures.get("step", 0))


def _line(text: str) -> dict[str, float]:
    try:
        figures: dict[str, float] = json.loads(text)
    except ValueError:
        return {}
    return figures


def create_shared_folder(asked: str, recipe: Recipe, engine: Engine) -> RunFolder:
    """Create a folder on the first process, for all of them."""
    path = broadcast_from_first(engine, lambda: create_folder(asked, recipe).path)
    return RunFolder(path, writes=engine.is_first)


def create_folder(asked: str, recipe: Recipe) -> RunFolder:
    """Create an empty folder for a run: the given one, or the next free one in runs/.

    Raises PatchgenError PG817 where the folder is not empty, or cannot be made.
    """
    try:
        path = _claimed(Path(asked)) if asked else _free(recipe)
    except OSError as error:
        where, what = Location(asked or RUNS), f"cannot be made: {error}"
        raise PatchgenError("PG817", where, what, "give --output another folder") from error
    folder = RunFolder(path)
    folder.write(RECIPE, recipe.as_json())
    return folder


def _claimed(path: Path) -> Path:
    """Create the folder if needed, and claim it for this run alone."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise _in_use(path)
    path.mkdir(parents=True, exist_ok=True)
    try:
        (path / RECIPE).touch(exist_ok=False)
    except FileExistsError:
        raise _in_use(path) from None
    return path


def _in_use(path: Path) -> PatchgenError:
    again = (path / RECIPE).is_file()
    hint = (
        f"--resume {path} goes on with the run in it" if again else "give --output another folder"
    )
    return PatchgenError("PG817", Location(str(path)), "exists, and is not an empty folder", hint)


def _free(recipe: Recipe) -> Path:
    name = f"{Path(recipe.model).name}-{recipe.task}"
    Path(RUNS).mkdir(exist_ok=True)
    for number in itertools.count(1):
        path = Path(RUNS, name if number == 1 else f"{name}-{number}")
        with suppress(FileExistsError):
            path.mkdir()
            return _claimed(path)
    raise AssertionError("there is always one more number")


@contextmanager
def lock_run(folder: RunFolder, engine: Engine) -> Iterator[None]:
    """Hold the lock of the run; PatchgenError PG817 on each process where another run has it."""
    from filelock import FileLock, Timeout

    lock = FileLock(folder.path / ALONE)

    def take() -> None:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            what = "another process has locked this run"
            raise PatchgenError(
                "PG817", Location(str(folder.path)), what, "wait for it to end"
            ) from None

    broadcast_from_first(engine, take)
    try:
        yield
    finally:
        lock.release()


def points_of(metrics: Sequence[Mapping[str, float]], name: str) -> tuple[tuple[float, float], ...]:
    """Return (step, value) of each line that has `name`."""
    return tuple(
        (figures["step"], figures[name])
        for figures in metrics
        if name in figures and "step" in figures
    )
