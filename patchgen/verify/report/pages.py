"""A report of `patchgen verify` to be checked in: a page for people and JSON with every number."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen.project.markdown import table_lines
from patchgen.project.write import replace_file
from patchgen.verify.mutation.mutant_result import counted
from patchgen.verify.mutation.page import format_mutants_page
from patchgen.verify.report.earlier import make_record, read_record
from patchgen.verify.report.result import Result, counts
from patchgen.verify.variants import Variant

_LEGEND = """\
Each case compares the variant with its parent: loss, logits, every hidden state, and the gradient
of every parameter, at real tokens, in training with dropout off unless the case says otherwise.
*closest* is the parent's nearest computation (its own SDPA, if it has that), *independent* another
one (its eager attention).

- **PASS**: the difference is within the bound, and the smallest error planted on purpose is at
  least ten times larger than the bound.
- **WARN**: the difference is within the bound, but a planted error is not that much larger; or a
  plan names something that does not exist, in the parent as well.
- **NONE**: there is nothing to compare, for the reason that is given.

Differences are relative to the largest entry of each tensor. In bfloat16 they are in units of the
parent's own noise, which is measured in the same run, and are taken from the nearer of two
references: the parent, and the parent in float32 (both round). *lines run*: how many of the lines
that the variant adds or changes ran in some case. *mutants seen*: how many of the small errors
planted in those lines some case noticed. [mutants.md](mutants.md) lists all others, with their
diffs.
"""


@dataclass(frozen=True, slots=True)
class RunDescription:
    """Where and how a report was made."""

    command: str
    device: str
    versions: tuple[tuple[str, str], ...]

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"


def find_best_device() -> str:
    """Where models run if nobody says otherwise."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def describe_run(command: str, device: str) -> RunDescription:
    """Of this run.  Asks torch, which is imported."""
    import torch
    import transformers

    import patchgen

    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else device
    versions = {
        "patchgen": patchgen.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    if device.startswith("cuda"):
        versions["CUDA"] = str(torch.version.cuda)
    return RunDescription(command, name, tuple(versions.items()))


def as_json(
    results: Sequence[Result], made: RunDescription, commands: Mapping[str, str] | None = None
) -> str:
    """Every case with its numbers; `commands` gives the command of each variant."""
    data: dict[str, Any] = {
        "command": made.command,
        "commands": commands or {},
        "device": made.device,
        "versions": dict(made.versions),
        "counts": counts(results),
        "cases": [result.as_json() for result in results],
    }
    return json.dumps(data, indent=1) + "\n"


def as_markdown(
    find_variants: Iterable[Variant],
    results: Sequence[Result],
    made: RunDescription,
    commands: Sequence[str] = (),
) -> str:
    """The page; `commands` gave the results, if several did."""
    gpu = (
        f"The kernels of {made.device} ran."
        if made.on_gpu
        else "No GPU was here: this is the CPU's arithmetic."
    )
    quoted = _quote(commands or (made.command,))
    lines = ["# Parity", "", f"{quoted}, {_versions(made)}. {gpu}", "", _LEGEND]
    by_name = {
        variant.name: [r for r in results if r.variant == variant.name] for variant in find_variants
    }
    lines += _variants_table(find_variants, by_name)
    for name, found in by_name.items():
        lines += ["", f"## {name}", "", *_cases_table(found)]
    return "\n".join(lines) + "\n"


def _quote(commands: Sequence[str]) -> str:
    return ", ".join(f"`{command}`" for command in commands)


def _versions(made: RunDescription) -> str:
    return ", ".join(f"{name} {version}" for name, version in made.versions)


def _variants_table(
    find_variants: Iterable[Variant], by_name: Mapping[str, Sequence[Result]]
) -> list[str]:
    rows = []
    for variant in find_variants:
        found = by_name[variant.name]
        rows.append(
            (
                f"[{variant.name}](#{variant.name})",
                f"`{variant.parent.rpartition('.')[2]}`",
                ", ".join(variant.parts),
                *(str(count) for count in counts(found).values()),
                format_lines(found),
                format_mutants(found),
            )
        )
    numbers = ("PASS", "WARN", "FAIL", "NONE", "lines run", "mutants seen")
    return table_lines(("variant", "parent", "parts", *numbers), rows, numbers=numbers)


def _cases_table(found: Sequence[Result]) -> list[str]:
    numbers = ("difference", "bound", "planted")
    rows = []
    for result in found:
        cells = map(number, (result.difference, result.bound, result.seen))
        rows.append((result.case, result.status, *cells, result.note))
    return table_lines(("case", "", *numbers, ""), rows, numbers=numbers)


def format_lines(results: Iterable[Result]) -> str:
    """ "254 of 256" changed lines ran; nothing where nobody asked."""
    return "".join(
        f"{each.lines.ran} of {each.lines.changed}" for each in results if each.lines is not None
    )


def format_mutants(results: Iterable[Result]) -> str:
    """ "23 of 24" mutants seen, of those that run and compute something else."""
    found = [counted(each.fates) for each in results if each.fates]
    return "".join(f"{each['seen']} of {each['seen'] + each['unseen']}" for each in found)


def number(value: float | None) -> str:
    """Short: nothing, 0, or two digits."""
    if value is None:
        return ""
    return "0" if value == 0 else f"{value:.1e}"


def write_report(
    folder: Path, gallery: Sequence[Variant], results: Sequence[Result], made: RunDescription
) -> None:
    """`parity.md`, `parity.json` and `mutants.md` in `folder`.

    Of the variants of `gallery` without results, the report keeps what it said before.
    """
    folder.mkdir(parents=True, exist_ok=True)
    earlier = read_record(folder / "parity.json", made.device, dict(made.versions))
    names = [variant.name for variant in gallery]
    record = earlier.with_newer(make_record(results, made.command)).of(names)
    reported = [variant for variant in gallery if variant.name in record.commands]
    commands = tuple(dict.fromkeys(record.commands.values()))
    ordered = sorted(record.results, key=lambda result: names.index(result.variant))
    mutants = format_mutants_page(reported, ordered, _quote(commands), _versions(made))
    replace_file(folder / "parity.json", as_json(ordered, made, record.commands).encode())
    replace_file(folder / "parity.md", as_markdown(reported, ordered, made, commands).encode())
    replace_file(folder / "mutants.md", mutants.encode())
