"""Write what was captured as a patch file, and let `adopt` make a modular file of it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchgen.author.adopt.patched import find_patched
from patchgen.author.adopt.releases import Release
from patchgen.author.adopt.work import adopt
from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import PatchgenError

_PLACE = re.compile(r"\S*?_patched\.py:(\d+):\d+: ")
_NO_EFFECT = re.compile(r"[\w.]+ has no effect: ")


@dataclass(frozen=True)
class Model:
    """A modular file and the flat file that it converts to, "" where something is in the way."""

    module: str
    name: str
    text: str = ""
    flat: str = ""
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """The models, and the captured differences with what became of each."""

    models: tuple[Model, ...]
    differences: tuple[dict[str, Any], ...]


def write_models(captured: Mapping[str, Any], settings: Settings) -> Result:
    """A modular file for each module with a difference that has an effect; none without a model."""
    differences = [dict(one) for one in captured["differences"]]
    release = Release(captured["version"], Path(captured["root"]))
    models = []
    assigned = captured["assigned"] if captured["module"] else ()
    modules = {differences[one["number"]]["module"]: None for one in assigned}
    for module in modules:
        model = _write(captured, module, differences, release, settings)
        if model is not None:
            models.append(model)
    return Result(tuple(models), tuple(differences))


def _write(
    captured: Mapping[str, Any],
    module: str,
    differences: list[dict[str, Any]],
    release: Release,
    settings: Settings,
) -> Model | None:
    stem = module.rpartition(".modeling_")[2] + "_patched"
    left = [one for one in captured["assigned"] if differences[one["number"]]["module"] == module]
    while left:
        text, owners = _patch_file(captured["pieces"], left)
        try:
            with tempfile.TemporaryDirectory(prefix="patchgen-") as folder:
                path = Path(folder, f"{stem}.py")
                path.write_text(text, encoding="utf-8", newline="\n")
                patched = find_patched(path, path.name, None, (release,), None, settings)
                assert patched is not None
                candidate, notes = patched
                title = (
                    f"{stem}, written by `patchgen unpatch` as a change of "
                    f"{stem.removesuffix('_patched')} of transformers {release.version}."
                )
                forked = replace(candidate.forked, title=title)
                made = adopt(forked, f"modular_{stem}.py", release.root(), settings)
        except PatchgenError as error:
            number = owners.get(error.problem.at.line)
            for one in left if number is None else [one for one in left if one["number"] == number]:
                _say(differences[one["number"]], error.problem.what)
            left = [] if number is None else [one for one in left if one["number"] != number]
            continue
        others = []
        for note in notes:
            place = _PLACE.match(note)
            number = owners.get(int(place[1])) if place else None
            what = note[place.end() :] if place else note
            if number is not None and _NO_EFFECT.match(what):
                _say(differences[number], what)
            else:
                at = differences[number]["at"] if number is not None else ""
                others.append(f"{at}: {what}" if at else what)
        problems = tuple(map(str, made.proof.problems))
        if not made.proof.holds and not problems:
            names = ", ".join((*made.proof.differ, *made.proof.missing)) or "a statement"
            problems = (f"the declaration does not reproduce {names}",)
        flat = made.proof.output if made.proof.holds else ""
        return Model(module, f"modular_{stem}.py", made.text, flat, problems, tuple(others))
    return None


def _say(difference: dict[str, Any], what: str) -> None:
    dead = _NO_EFFECT.match(what)
    difference["dead" if dead else "why_not"] = what[dead.end() :] if dead else what


def _patch_file(
    pieces: Sequence[Mapping[str, Any]], assigned: Sequence[Mapping[str, Any]]
) -> tuple[str, dict[int, int]]:
    """The text, and which difference each of its lines is for."""
    by_name = {one["name"]: one for one in pieces}
    owner: dict[str, int] = {}
    for one in assigned:
        waiting = [*one["needs"]]
        while waiting:
            name = waiting.pop()
            if name not in owner:
                owner[name] = one["number"]
                waiting += by_name[name]["needs"]
    lines: list[str] = []
    owners: dict[int, int] = {}

    def add(text: str, number: int) -> None:
        for line in text.rstrip().split("\n"):
            lines.append(line)
            owners[len(lines)] = number

    for piece in sorted(pieces, key=lambda one: not re.match("import|from", one["text"])):
        if piece["name"] in owner:
            add(piece["text"], owner[piece["name"]])
    package, _, rest = assigned[0]["path"].partition(".modeling_")
    file = f"modeling_{rest.partition('.')[0]}"
    add(f"from {package} import {file} as patched_module", assigned[0]["number"])
    for one in assigned:
        target = one["path"].removeprefix(f"{package}.{file}.")
        add(f"patched_module.{target} = {one['value']}", one["number"])
    return "\n".join(lines) + "\n", owners
