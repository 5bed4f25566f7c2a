"""Run a model in the environment of its old release and in today's, and compare the two."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from patchgen import children, disk
from patchgen.children import pip, python
from patchgen.syntax.errors import Location, PatchgenError

SECONDS = 1800  # for pip, and for a run of a model
BOUND = 1e-5  # of the largest value, in float32: what is beyond it is no rounding


def make_environment(version: str, cache: Path, wheels: Path | None) -> Path:
    """A folder with an old release and what it asks for; torch is shared with the running Python.

    It is made once.  Raises PatchgenError PG862 if pip cannot.
    """
    home = cache / version
    if home.is_dir():
        return home
    disk.make_private(cache)
    with disk.new_folder(home) as new:
        command = pip("install", "--quiet", "--no-compile", "--target", new)
        command += [f"transformers=={version}"]
        if wheels is not None:
            command += ["--find-links", str(wheels.resolve())]
        done = children.run(command, cache, SECONDS)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            what = f"cannot be installed: {(lines or ['pip ended without a word'])[-1]}"
            hint = "give --package-root a folder with its wheels, or leave --with-environments out"
            raise PatchgenError("PG862", Location(f"transformers {version}"), what, hint)
    return home


def run(side: str, folder: Path, plan: Mapping[str, Any], paths: Sequence[str]) -> str:
    """Observe the model in `folder/side`; the last words of a run that fails."""
    home = folder / f"home-{side}"
    environment = {
        **os.environ,
        "HF_HOME": str(home),
        "HF_MODULES_CACHE": str(home / "modules"),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
    }
    words = (side, folder, json.dumps(plan))
    module = "patchgen.rescuing.observe"
    command = python(module, *words, first=paths, options=["-W", "ignore"])
    done = children.run(command, folder, SECONDS, environment)
    disk.fill(folder, {f"{side}.log": done.stderr})
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    if not done.returncode:
        return ""
    # The message of an exception, which stands below its places, may have several lines.
    places = [number for number, line in enumerate(lines) if line.startswith("  ")]
    told = lines[places[-1] + 1 :] if places else []
    return next(iter(told or lines[-1:]), "it ended without a word")


def compare(folder: Path) -> dict[str, str]:
    """Class by class of what a model does: equal, or how it differs."""
    import torch

    after = torch.load(folder / "after.pt", weights_only=False)
    file = folder / "before.pt"
    recorded = torch.load(file, weights_only=False) if file.exists() else {}
    before = recorded.get("seen", {})
    verdicts = {}
    for what in ("missing", "unexpected"):
        keys: list[str] = []
        for side in (recorded, after):
            keys += side.get("keys", {}).get(what, ())
        if keys:
            verdicts[f"{what} weights"] = f"differs: {len(keys)}, such as {', '.join(keys[:3])}"
    for name, mine in after["seen"].items():
        verdicts[name] = _verdict(name, before.get(name), mine)
    return verdicts


def _verdict(name: str, theirs: Any, mine: Any) -> str:
    """What becomes of one observation: its tensors, or the error that it ended with, or None."""
    if isinstance(mine, str):
        verdict = f"failed before, too: {theirs}" if isinstance(theirs, str) else f"fails: {mine}"
    elif theirs is None:
        verdict = "runs"
    elif isinstance(theirs, str):
        verdict = f"runs; failed before: {theirs}"
    else:
        verdict = _difference(theirs, mine)
    if name == "cache" and isinstance(theirs, dict) and "equal" not in verdict:
        if _difference({0: theirs[0]}, {0: theirs[1]}).startswith("differs"):
            return f"was wrong before: not as without a cache; now: {verdict}"
    if name == "beam search" and verdict.startswith("differs") and mine[0].equal(mine[1]):
        return "as without a cache; the search of transformers is another one now"
    return verdict


def _difference(theirs: Any, mine: Any) -> str:
    if theirs.keys() != mine.keys():
        only = sorted(theirs.keys() ^ mine.keys())
        return f"differs: on one side only: {', '.join(map(str, only[:3]))}"
    largest = 0.0
    every = numbers = 0
    for key, old in theirs.items():
        new = mine[key]
        if old.shape != new.shape:
            return f"differs: {key} is {tuple(new.shape)} in place of {tuple(old.shape)}"
        # A row of padding alone is NaN in many models, and says nothing.
        says = ~(old.isnan() & new.isnan())
        every += old.numel()
        old = old[says]
        new = new[says]
        numbers += old.numel()
        if old.numel():
            scale = max(float(old.double().abs().max()), 1e-3)
            gap = float((old.double() - new.double()).abs().max()) / scale
            largest = gap if gap != gap else max(largest, gap)  # NaN stays
    if numbers * 2 < every:
        return "failed before, too: most of it is NaN"
    if largest <= BOUND:
        equal = "equal, but for rounding" if largest else "equal, bit for bit"
        return f"{equal}, where it is a number" if numbers < every else equal
    return f"differs: by {largest:.1e}"
