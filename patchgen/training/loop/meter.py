"""Measures speed, MFU and memory while Trainer trains.

Only real tokens are counted, not padding.  Time is that of the steps, from the end of one to the
end of the next: it includes waiting for data, and excludes evaluation, saving and logging.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from transformers import TrainerCallback

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.training.charts.lines import Line, lines
from patchgen.training.device_memory import peak_memory, reset_peak_memory
from patchgen.training.loop.folder import CURVE, RunFolder, points_of
from patchgen.training.parallel.engine import Engine

REDRAWN = 5.0  # seconds between two versions of the curve
WARM = 2  # first steps, not counted: they allocate and compile


class Watch(Protocol):
    """Shows the progress of a run."""

    def steps(self, done: int, of: int) -> None:
        """So many steps are done."""

    def report(self, figures: Mapping[str, float]) -> None:
        """New figures were logged."""

    def note(self, text: str) -> None:
        """Something that the user should know."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What MFU is computed from.

    per_token  FLOPs of a training step for each real token; None where they are not known
    peak       FLOP/s of the device, measured in products of random matrices
    datasheet  FLOP/s by its data sheet; None where they are not known
    """

    per_token: float | None
    peak: float
    datasheet: float | None = None

    def of(self, tokens_a_second: float, devices: int) -> dict[str, float]:
        """Return MFU: the share of the devices' FLOP/s that the tokens needed.

        It is relative to the measured peak, and to that of the data sheet.
        """
        if self.per_token is None:
            return {}
        done = tokens_a_second * self.per_token / devices
        weight_shards = {"mfu": done / self.peak}
        if self.datasheet is not None:
            weight_shards["mfu_datasheet"] = done / self.datasheet
        return {name: round(share, 5) for name, share in weight_shards.items()}


class Meter(TrainerCallback):
    """Logs tokens per second, MFU and peak memory with the loss."""

    def __init__(
        self, folder: RunFolder, watch: Watch, device: str, rates: Rates, engine: Engine
    ) -> None:
        self.folder, self.watch, self.device, self.engine = folder, watch, device, engine
        self.rates = rates
        self.seconds, self.tokens, self.warm = 0.0, 0, WARM
        self.window = (0.0, 0)
        self.since, self.tokens_before = 0.0, 0
        self.drawn = 0.0

    @property
    def tokens_a_second(self) -> float:
        """Return the mean over all steps after the warm-up; 0 where there are none."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def utilisation(self, tokens_a_second: float) -> dict[str, float]:
        """Return MFU, where it is known."""
        return self.rates.of(tokens_a_second, self.engine.launch.world)

    def tokens_of(self, state: Any) -> int:
        """Return the tokens that were trained on.

        Trainer adds up the tokens of all processes, also of those that compute the same rows.
        """
        return int(state.num_input_tokens_seen // self.engine.tp)

    def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Start counting."""
        reset_peak_memory(self.device)
        self.seconds, self.tokens, self.warm, self.window = 0.0, 0, WARM, (0.0, 0)
        self.watch.steps(state.global_step, state.max_steps)
        self._resume_clock(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Count a step."""
        seconds, tokens = (
            time.perf_counter() - self.since,
            self.tokens_of(state) - self.tokens_before,
        )
        if self.warm:
            self.warm -= 1
        else:
            self.seconds += seconds
            self.tokens += tokens
            self.window = (self.window[0] + seconds, self.window[1] + tokens)
        self.watch.steps(state.global_step, state.max_steps)
        self._resume_clock(state)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float], **rest: Any
    ) -> None:
        """Write a line of figures, and stop the run where the loss is not finite."""
        figures: dict[str, float] = {
            "step": state.global_step,
            **logs,
            "seconds": round(time.time(), 1),
        }
        if state.trial_name is not None:
            figures["trial"] = int(state.trial_name)
        seconds, tokens = self.window
        if "loss" in logs and seconds:
            figures["tokens_a_second"] = round(tokens / seconds, 1)
            figures |= self.utilisation(tokens / seconds)
            self.window = (0.0, 0)
        figures["peak_bytes"] = peak_memory(self.device)
        if self.folder.writes:
            self.folder.measure(figures)
        self.watch.report(figures)
        if "trial" not in figures:
            self._draw_now_and_then()
        self._resume_clock(state)
        check_loss(figures)

    def on_evaluate(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Restart the clock: evaluation is not part of a step."""
        self._resume_clock(state)

    on_save = on_evaluate

    def _resume_clock(self, state: Any) -> None:
        self.since, self.tokens_before = time.perf_counter(), self.tokens_of(state)

    def _draw_now_and_then(self) -> None:
        if time.monotonic() - self.drawn > REDRAWN:
            self.drawn = time.monotonic()
            draw_loss(self.folder)


def check_loss(figures: Mapping[str, float]) -> None:
    """Raise PG820 where the loss is not finite."""
    for name in ("loss", "eval_loss"):
        if name in figures and not math.isfinite(figures[name]):
            what = f"{name} is {figures[name]} at step {figures['step']}"
            hint = "a smaller --learning-rate, a --warmup, or another --precision"
            raise PatchgenError("PG820", Location("patchgen train"), what, hint)


def draw_loss(folder: RunFolder) -> None:
    """Draw the loss curve so far."""
    if not folder.writes:
        return
    metrics = folder.metrics()
    rows = [
        Line(name.replace("_", " "), points_of(metrics, name)) for name in ("loss", "eval_loss")
    ]
    drawable = [row for row in rows if row.points]
    if drawable:
        title = f"Training of {folder.path.name}"
        folder.write(CURVE, lines(title, drawable, across="optimizer step", up="loss (nats)"))
