"""`patchgen unpatch`, and `patchgen.unpatch(model)`: the whole way from a process to a report."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen import children, disk
from patchgen.compiler.settings import Settings
from patchgen.project.write import write_new
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.unpatching.modular import Model, write_models

SECONDS = 6 * 3600  # until the model first runs: a program may prepare its data before
BOUND = 1e-5  # relative, in float32: the largest difference that still is rounding


@dataclass(frozen=True)
class Report:
    """What was found in a running program, and what became of it.

    `equal` has the largest relative difference of each head, or why it could not be compared; it is
    empty where nothing was compared.
    """

    model: str
    module: str
    error: str
    differences: tuple[Mapping[str, Any], ...]
    models: tuple[Model, ...]
    equal: Mapping[str, Mapping[str, Any]]
    is_verified: bool

    @property
    def is_complete(self) -> bool:
        """Whether the files say all that has an effect, and compute what the patched model does."""
        if not self.module or self.error or [*self.left()]:
            return False
        if not all(model.flat and model.module == self.module for model in self.models):
            return False
        if not self.is_verified or not self.models:
            return True
        measured = [head["largest"] for head in self.equal.values() if "largest" in head]
        is_compared = "largest" in self.equal.get(self.model, {})
        if not is_compared:
            return False
        return all(largest <= BOUND for largest in measured)

    def left(self) -> Iterator[Mapping[str, Any]]:
        """What has, or may have, an effect and is not written."""
        return (patch for patch in self.differences if patch["why_not"] and not patch["dead"])

    def data(self) -> dict[str, Any]:
        """The report as data for JSON."""
        models = [
            {"file": m.name, "module": m.module, "converts": bool(m.flat), "text": m.text,
             "problems": m.problems, "notes": m.notes}
            for m in self.models
        ]  # fmt: skip
        return {
            "model": self.model, "module": self.module, "error": self.error,
            "complete": self.is_complete, "differences": self.differences, "models": models,
            "equal": dict(self.equal),
        }  # fmt: skip

    def text(self) -> str:
        """The report as text."""
        lines = [f"{self.model} of {self.module}"] if self.module else []
        if self.model and not self.module:
            lines = [f"{self.model} is no model of transformers; use `patchgen adopt` on its file"]
        if self.error:
            what = "after" if self.model else "before"
            lines.append(f"the program failed {what} a model was built: {self.error}")
        elif not self.model:
            lines.append("the program ended and had built no model of transformers")
        listed = [*self.left()]
        written = [patch for patch in self.differences if not patch["dead"] and patch not in listed]
        if not self.models and not self.module:
            written, listed = [], written + listed
        lines += _rows("patches with an effect, written:", written, "")
        dead = (patch for patch in self.differences if patch["dead"])
        lines += _rows("patches without effect:", dead, "dead")
        lines += _rows("not written:", listed, "why_not")
        if not self.differences:
            lines.append("nothing differs from the files of transformers")
        for model in self.models:
            state = "converts" if model.flat else "does not convert"
            lines.append(f"{model.name}: {state}")
            if model.module != self.module:
                lines.append(f"note: {self.model} builds {model.module} itself, not this file")
            lines += [f"  {problem}" for problem in model.problems]
            lines += [f"note: {note}" for note in model.notes]
        lines += [f"{head}: {_said(verdict)}" for head, verdict in self.equal.items()]
        if self.models and not self.is_verified:
            lines.append("note: not compared with the patched model: that takes both to run")
        return "\n".join(lines) + "\n"


def _said(verdict: Mapping[str, Any]) -> str:
    if "error" in verdict:
        return f"not compared with the patched one: {verdict['error']}"
    if not verdict["largest"]:
        return "logits, loss and gradients equal the patched model's, bit for bit"
    verb = "equal" if verdict["largest"] <= BOUND else "DIFFER from"
    size = f"{verdict['largest']:.1e} ({verdict['where']})"
    return f"logits, loss and gradients {verb} the patched model's, to {size}"


def _rows(title: str, differences: Any, why: str) -> list[str]:
    rows = []
    for patch in differences:
        at = f", {patch['at']}" if patch["at"] else ""
        reason = f": {patch[why]}" if why and patch[why] else ""
        rows.append(f"  {patch['target']} = {patch['now']}{at}{reason}")
    return [title, *rows] if rows else []


def unpatch(
    model: Any,
    write: str | os.PathLike[str] | None = None,
    *,
    verify: bool = True,
    settings: Settings | None = None,
) -> Report:
    """What this process has changed about a model of transformers; `write` names a folder for it.

    The modular files are in `models` of the report.  `verify` compares tiny models in float32, one
    patched in this process, the other of the flat file in a process of its own.
    """
    from patchgen.unpatching.child import record

    with disk.scratch() as folder:
        record(model, folder, "", verify)
        return _finish(folder, write, settings or Settings(), verify, False)


def unpatch_command(
    command: Sequence[str], write: str | None, settings: Settings, *, verify: bool, force: bool
) -> Report:
    """What the user's command has patched when its model first runs.

    Raises PatchgenError PG860 for a command that runs no Python.
    """
    program, options, words = _split(command)
    with disk.scratch() as folder:
        flags = "observe" if verify else "plain"
        # It is the user's program, which finds what it finds without patchgen.
        named = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        run = children.python(
            "patchgen.unpatching.child",
            *(str(folder), flags, *words),
            first=[*map(os.path.abspath, named)],
            program=program,
            options=options,
        )
        # What the program prints is no part of the report.
        children.run(run, None, SECONDS, stdout=sys.stderr.fileno())
        if not (folder / "captured.json").is_file():
            what = f"`{' '.join(command)}` ended before its patches were recorded"
            raise PatchgenError(
                "PG860", Location("patchgen unpatch"), what, "read what it printed above"
            )
        return _finish(folder, write, settings, verify, force)


def _split(command: Sequence[str]) -> tuple[str, list[str], list[str]]:
    """The interpreter, its options, and what it runs."""
    words = [*command]
    name = Path(words[0]).name if words else ""
    python = sys.executable
    if name.startswith("python"):
        if words[0] != name:
            python = words[0]
        words = words[1:]
    options: list[str] = []
    while words and words[0].startswith("-") and words[0] != "-m":
        count = 2 if words[0] in ("-W", "-X") else 1
        options += words[:count]
        words = words[count:]
    match words:
        case ["-m", _, *_]:
            is_python = True
        case [first, *_]:
            is_python = first.endswith(".py")
        case _:
            is_python = False
    if not is_python or "-c" in options:
        what = f"`{' '.join(command)}` runs no Python file"
        hint = "write it as `patchgen unpatch -- python train.py` or `-- python -m package.train`"
        raise PatchgenError("PG860", Location("patchgen unpatch"), what, hint)
    return python, options, words


def _finish(
    folder: Path,
    write: str | os.PathLike[str] | None,
    settings: Settings,
    verify: bool,
    force: bool,
) -> Report:
    captured = disk.read_json(folder / "captured.json")
    models, differences = write_models(captured, settings)
    equal: dict[str, Any] = {}
    for model in models:
        if verify and model.flat and model.module == captured["module"]:
            equal = _compare(folder, model, captured)
    if write is not None:
        for model in models:
            path = Path(write, model.name)
            if model.flat or force:
                write_new(path, model.text, path.parent, force, str(path))
    name, module, error = (captured[key] for key in ("model", "module", "error"))
    return Report(name, module, error, differences, models, equal, verify)


def _compare(folder: Path, model: Model, captured: Mapping[str, Any]) -> dict[str, Any]:
    """How each head of the flat file compares with the patched one, in a process of its own."""
    flat = folder / model.name.replace("modular_", "modeling_", 1)
    disk.fill(folder, {flat.name: model.flat})
    first = captured["model"]
    # What the program imports from a folder of its own, the flat file may import as well.
    folders = captured["folders"]
    command = children.python("patchgen.unpatching.equal", folder, flat, first=folders)
    done = children.run(command, folder, SECONDS)
    if done.returncode:
        errors = done.stderr.strip().splitlines() or ["it ended without a word"]
        why = f"the flat file does not import: {errors[-1]}"
        return {first: {"error": why}}
    printed = done.stdout.strip().splitlines()
    equal = {name: {"error": why} for name, why in captured.get("not_observed", {}).items()}
    compared = json.loads(printed[-1])
    equal |= compared
    names = sorted(equal, key=lambda name: (name != first, name))
    return {name: equal[name] for name in names}
