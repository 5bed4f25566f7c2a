"""What was found of a variant beside its parent on a checkpoint: as tables, page, picture, JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from patchgen import disk
from patchgen.project.markdown import table_lines
from patchgen.project.origin import install_hint
from patchgen.verifying.report import (
    Result,
    RunDescription,
    as_data,
    find_proofs,
    format_origin,
    name_numbers,
    number,
)
from patchgen.verifying.variants import Variant

LENGTH, STEPS = 128, 10
PICTURE = "real.svg"
LEFT_OUT = ("variant", "cause", "seconds", "lines", "fates")  # of a result
TEXT = ("case", "status", "unit", "note", "places", "behind")  # heads of columns of words


@dataclass(frozen=True, slots=True)
class RealRun:
    """What is compared: one variant, in one dtype."""

    variant: Variant
    checkpoint: str
    data: str
    dtype: Literal["float32", "bfloat16"] = "float32"
    length: int = LENGTH  # tokens of a row
    steps: int = STEPS  # of training; 0: none
    device: str = "cpu"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """How far logits are from the parent's in one part of all rows."""

    places: str  # "0 to 7"
    divergence: float  # Kullback-Leibler, in nats a token; the mean
    largest: float  # difference of a logit


@dataclass(frozen=True, slots=True)
class Layer:
    """How far the states are from the parent's behind one layer."""

    behind: str
    drift: float  # root mean square of the difference, relative to that of the parent's states
    noises: float  # the same in units of what the parent's own rounding makes


@dataclass(frozen=True, slots=True)
class Step:
    """Loss, and norm of all gradients, at one step of training of both."""

    step: int
    parent_loss: float
    loss: float
    parent_norm: float
    norm: float


@dataclass(slots=True)
class Found:
    """What a run has found until now."""

    run: RealRun
    about: str = ""  # the class, and how much text
    results: list[Result] = field(default_factory=list)
    places: Sequence[Place] = ()
    layers: Sequence[Layer] = ()
    steps: Sequence[Step] = ()
    texts: Sequence[str] = ()  # the beginning, how the parent continues it, and the variant

    @property
    def title(self) -> str:
        """Return the variant and the dtype."""
        return f"{self.run.variant.name} in {self.run.dtype}"

    def tables(self) -> Iterator[list[list[str]]]:
        """Yield tables with heads: the results, and the figures behind them."""
        for rows in (self.results, self.places, self.layers, self.steps):
            if not rows:
                continue
            fields = [name for name in asdict(rows[0]) if name not in LEFT_OUT]
            table = [[name.replace("_", " ") for name in fields]]
            for row in rows:
                table.append([_shown(getattr(row, name)) for name in fields])
            yield table

    def as_json(self) -> dict[str, Any]:
        """Return all figures."""
        values = asdict(self)
        del values["results"]
        return name_numbers({**values, "run": self.title})


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}" if value >= 0.1 else number(value)
    return "" if value is None else str(value)


def results_of(every: Sequence[Found]) -> tuple[Result, ...]:
    """Return the results of all."""
    return tuple(result for found in every for result in found.results)


def report_data(every: Sequence[Found], origin: RunDescription) -> dict[str, Any]:
    """Return what `verify` has of other cases, and all figures under `real`."""
    return {**as_data(results_of(every), origin), "real": [found.as_json() for found in every]}


def as_page(every: Sequence[Found], origin: RunDescription, picture: str = "") -> str:
    """Return the report in Markdown, with what stands in the place of a picture."""
    names = dict.fromkeys(found.run.variant.name for found in every)
    proofs = find_proofs(names, results_of(every))
    paragraphs = ["# On a checkpoint", f"{format_origin(origin)}.", picture]
    for name, proof in proofs.items():
        paragraphs.append(f"{name}: {proof}")
    for found in every:
        paragraphs += [f"## {found.title}", f"{found.about}."]
        for heads, *rows in found.tables():
            numbers = {*heads}.difference(TEXT)
            lines = table_lines(heads, rows, numbers=numbers)
            paragraphs.append("\n".join(lines))
        texts = [f"    {text!r}" for text in found.texts]
        paragraphs.append("\n".join(texts))
    page = "\n\n".join(filter(None, paragraphs))
    return f"{page}\n"


def write_real(folder: Path, every: Sequence[Found], origin: RunDescription) -> str:
    """Write real.md, real.json and a picture into `folder`; return why there is no picture."""
    picture = f"![Divergence, drift and loss]({PICTURE})"
    why = ""
    try:
        disk.write_figure(folder / PICTURE, _draw(every))
    except ImportError:
        picture = why = f"No picture: matplotlib is missing; {install_hint('charts')}"
    data = json.dumps(report_data(every, origin), indent=1) + "\n"
    disk.write(folder / "real.json", data, folder)
    disk.write(folder / "real.md", as_page(every, origin, picture), folder)
    return why


def _draw(every: Sequence[Found]) -> Any:
    """Draw the divergence by place, the drift by layer, and both curves of the loss."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    by_place, by_layer, by_step = figure.subplots(1, 3)
    by_place.set_title("KL divergence by place, nats")
    by_layer.set_title("relative drift by layer")
    by_step.set_title("loss by step")
    for axes in (by_place, by_layer):
        axes.set_yscale("symlog", linthresh=1e-9)  # what is equal is 0
    for found in every:
        by_place.plot([place.divergence for place in found.places])
        by_layer.plot([layer.drift for layer in found.layers])
        by_step.plot([step.loss for step in found.steps], label=found.title)
        parent = [step.parent_loss for step in found.steps]
        by_step.plot(parent, linestyle="--", label=f"the parent of {found.title}")
    by_step.legend(fontsize="small")
    return figure
