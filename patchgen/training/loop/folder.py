"""Where a run is written down: what was asked for, what ran it, what was measured, and what came of it.

recipe.json     what was asked for, exactly
run.json        what was found (rows of a batch, text, sizes), and device and releases of each attempt
metrics.jsonl   a line for each that Trainer logs, as it goes
curve.svg       the loss, drawn anew as it goes
tokenizer/      what made tokens of the text
checkpoint-N/   for `--resume`
model/          the trained model
result.json     the last figures; there when the run has ended
search.log      of a search, in place of checkpoints and a model: its trials, as they end
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

from patchgen.errors import Location, PatchgenError
from patchgen.project.disk.write import replace_file
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
KINDS = ("loss", "eval_loss", "train_loss")  # what a line of figures is about
TRIALS = "search.log"
ALONE = ".lock"
RUNS = "runs"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run's place.  Of several processes one `writes`, and the others read what it wrote."""

    path: Path
    writes: bool = True

    @property
    def tokenizer(self) -> Path:
        """The folder of the tokenizer."""
        return self.path / "tokenizer"

    @property
    def model(self) -> Path:
        """The folder of the trained model."""
        return self.path / "model"

    @property
    def ended(self) -> bool:
        """Whether the run came to its end."""
        return (self.path / RESULT).is_file()

    def check_kind(self, *, search: bool) -> None:
        """PG817 where the other of a run and a search was begun here; each would go on in the other's figures."""
        if not self.found() or search == (self.path / TRIALS).is_file():
            return
        begun, hint = (
            ("run", "goes on without --search")
            if search
            else ("search", "--search ... goes on with it")
        )
        what = f"was begun as a {begun}"
        raise PatchgenError(
            "PG817", Location(str(self.path)), what, f"patchgen train --resume {self.path} {hint}"
        )

    def write(self, name: str, content: str | Mapping[str, Any]) -> None:
        """Let the file `name` say this, whole or not at all."""
        if not self.writes:
            return
        text = content if isinstance(content, str) else json.dumps(content, indent=1) + "\n"
        replace_file(self.path / name, text.encode())

    def recipe(self) -> Recipe:
        """What the run was asked for; PG817 where this is no run."""
        try:
            return recipe_of((self.path / RECIPE).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            what = f"is no run that can be resumed: {RECIPE}: {error}"
            raise PatchgenError("PG817", Location(str(self.path)), what) from error

    def found(self) -> dict[str, Any]:
        """What the run had found so far; empty before it found anything.  PG817 where it cannot be read."""
        path = self.path / FOUND
        try:
            told: dict[str, Any] = (
                json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
            )
        except ValueError as error:
            raise PatchgenError(
                "PG817", Location(str(path)), f"cannot be read: {error}", "begin a new run"
            ) from error
        return told

    def forget(self) -> None:
        """Remove what was written before anything was trained, and the folder itself where it is empty then."""
        if not self.writes:
            return
        shutil.rmtree(self.tokenizer, ignore_errors=True)
        for name in (RECIPE, ALONE):
            (self.path / name).unlink(missing_ok=True)
        with suppress(OSError):  # somebody else's file
            self.path.rmdir()

    def measure(self, figures: Mapping[str, float]) -> None:
        """Add what was measured; behind a line that was cut off, as by a full disk, on a line of its own."""
        with (self.path / METRICS).open("ab+") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            whole = file.read() in (b"", b"\n")
            file.write(f"{'' if whole else chr(10)}{json.dumps(figures)}\n".encode())

    def metrics(self) -> list[dict[str, float]]:
        """Every line that was measured, of each step the last attempt's; a line that was cut off is none."""
        path = self.path / METRICS
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.is_file() else []
        by_step: dict[tuple[float, float, str], dict[str, float]] = {}
        for line in lines:
            told = _line(line)
            kind = next((name for name in KINDS if name in told), "")
            if told:
                by_step[told.get("trial", 0), told.get("step", 0), kind] = told
        return sorted(by_step.values(), key=lambda told: told.get("step", 0))


def _line(text: str) -> dict[str, float]:
    try:
        told: dict[str, float] = json.loads(text)
    except ValueError:
        return {}
    return told


def create_shared_folder(asked: str, recipe: Recipe, engine: Engine) -> RunFolder:
    """A new folder of the first process, for all of them."""
    path = broadcast_from_first(engine, lambda: create_folder(asked, recipe).path)
    return RunFolder(path, writes=engine.is_first)


def create_folder(asked: str, recipe: Recipe) -> RunFolder:
    """An empty folder for the recipe's run: the one that is asked for, else the next of runs/ that is free.

    Raises PatchgenError PG817 where something is in it, or it cannot be made.
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
    """An empty folder, made where it is none: this run's, and not that of another which begins at the same time."""
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
    return PatchgenError(
        "PG817", Location(str(path)), "is there already, and not an empty folder", hint
    )


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
    """While no other process goes on with the same run.  PatchgenError PG817 where one does, in each process."""
    from filelock import FileLock, Timeout

    lock = FileLock(folder.path / ALONE)

    def take() -> None:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            what = "another process is at this run"
            raise PatchgenError(
                "PG817", Location(str(folder.path)), what, "wait for it to end"
            ) from None

    broadcast_from_first(engine, take)
    try:
        yield
    finally:
        lock.release()


def points_of(metrics: Sequence[Mapping[str, float]], name: str) -> tuple[tuple[float, float], ...]:
    """(step, value) of each line that has `name`."""
    return tuple((told["step"], told[name]) for told in metrics if name in told and "step" in told)
