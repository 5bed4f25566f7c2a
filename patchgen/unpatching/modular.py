"""Write what was captured as a patch file, and let `adopt` make a modular file of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchgen import disk
from patchgen.author.adopt.classes import Doubts
from patchgen.author.adopt.forked import ForkedModel
from patchgen.author.adopt.patched import find_patched
from patchgen.author.adopt.proof import prove
from patchgen.author.adopt.releases import Release
from patchgen.author.adopt.work import Adopted, adopt
from patchgen.author.adopt.write import declare
from patchgen.author.modular_text import format_modular
from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import PatchgenError
from patchgen.unpatching import SUPER

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


def write_models(
    captured: Mapping[str, Any], settings: Settings
) -> tuple[tuple[Model, ...], tuple[dict[str, Any], ...]]:
    """A modular file for each module that differs, and what became of each difference."""
    differences = [dict(patch) for patch in captured["differences"]]
    release = Release(captured["version"], Path(captured["root"]))
    assigned = captured["assigned"] if captured["module"] else ()
    modules = [differences[entry["number"]]["module"] for entry in assigned]
    models = []
    for module in dict.fromkeys(modules):
        model = _write(captured, module, differences, release, settings)
        if model is not None:
            models.append(model)
    return tuple(models), tuple(differences)


def _write(
    captured: Mapping[str, Any],
    module: str,
    differences: list[dict[str, Any]],
    release: Release,
    settings: Settings,
) -> Model | None:
    stem = module.rpartition(".modeling_")[2] + "_patched"
    assigned = captured["assigned"]
    left = [entry for entry in assigned if differences[entry["number"]]["module"] == module]
    while left:
        text, owners = _patch_file(captured["pieces"], left)
        try:
            with disk.scratch() as folder:
                path = folder / f"{stem}.py"
                disk.fill(folder, {path.name: text})
                patched = find_patched(path, path.name, None, (release,), None, settings)
                assert patched is not None
                candidate, notes = patched
                title = (
                    f"{stem}, written by `patchgen unpatch` as a change of "
                    f"{stem.removesuffix('_patched')} of transformers {release.version}."
                )
                forked = replace(candidate.forked, title=title)
                adopted = _declared(forked, f"modular_{stem}.py", release.root(), settings)
        except PatchgenError as error:
            number = owners.get(error.problem.at.line)
            refused = [entry for entry in left if number in (None, entry["number"])]
            for entry in refused:
                _say(differences[entry["number"]], error.problem.what)
            left = [entry for entry in left if entry not in refused]
            continue
        others = []
        for note in notes:
            if SUPER in note:
                continue
            position = _PLACE.match(note)
            number = owners.get(int(position[1])) if position else None
            what = note[position.end() :] if position else note
            if number is not None and _NO_EFFECT.match(what):
                _say(differences[number], what)
            else:
                at = differences[number]["at"] if number is not None else ""
                others.append(f"{at}: {what}" if at else what)
        problems = tuple(map(str, adopted.proof.problems))
        if not adopted.proof.holds and not problems:
            names = ", ".join((*adopted.proof.differ, *adopted.proof.missing)) or "a statement"
            problems = (f"the declaration does not reproduce {names}",)
        flat = adopted.proof.output if adopted.proof.holds else ""
        return Model(module, f"modular_{stem}.py", adopted.text, flat, problems, tuple(others))
    return None


def _declared(forked: ForkedModel, name: str, root: Path, settings: Settings) -> Adopted:
    """The declaration of a fork, with `super()` where a method calls the one that it replaces."""
    fork = forked.fork
    if SUPER not in fork.source.text:
        return adopt(forked, name, root, settings)
    declaration = declare(forked, Doubts())
    text = re.sub(rf"\w+\.{SUPER}(\w+)\(", r"super().\1(", declaration.text)
    text = format_modular(text, settings)
    proof = prove(text, forked, name, root, settings)
    differ = []
    for key in proof.differ:
        # A fork has no `super()` to its own class: what calls it is compared when both models run.
        if SUPER not in ast.unparse(fork.definitions[key].node):
            differ.append(key)
    proof = replace(proof, differ=tuple(differ))
    return Adopted(forked, text, declaration.definitions, proof)


def _say(patch: dict[str, Any], what: str) -> None:
    dead = _NO_EFFECT.match(what)
    patch["dead" if dead else "why_not"] = what[dead.end() :] if dead else what


def _patch_file(
    pieces: Sequence[Mapping[str, Any]], assigned: Sequence[Mapping[str, Any]]
) -> tuple[str, dict[int, int]]:
    """The text, and which difference each of its lines is for."""
    by_name = {piece["name"]: piece for piece in pieces}
    owner: dict[str, int] = {}
    for entry in assigned:
        waiting = [*entry["needs"]]
        while waiting:
            name = waiting.pop()
            if name not in owner:
                owner[name] = entry["number"]
                waiting += by_name[name]["needs"]
    lines: list[str] = []
    owners: dict[int, int] = {}

    def add(text: str, number: int) -> None:
        for line in text.rstrip().split("\n"):
            lines.append(line)
            owners[len(lines)] = number

    for piece in sorted(pieces, key=lambda piece: not re.match("import|from", piece["text"])):
        if piece["name"] in owner:
            add(piece["text"], owner[piece["name"]])
    package, _, rest = assigned[0]["path"].partition(".modeling_")
    file = f"modeling_{rest.partition('.')[0]}"
    add(f"from {package} import {file} as patched_module", assigned[0]["number"])
    for entry in assigned:
        target = entry["path"].removeprefix(f"{package}.{file}.")
        add(f"patched_module.{target} = {entry['value']}", entry["number"])
    return "\n".join(lines) + "\n", owners
