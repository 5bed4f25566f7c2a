"""A stand-in for the core, and a project for it: to test what is done with outputs, whatever they say.

The stand-in is no model of flattening: a modular file `from toy import A` gives the banner, the parent's classes that
it names, and its own text.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from patchgen.compiler.flat import (
    BANNER,
    FlatFile,
    Flattened,
    LineOrigin,
    Note,
    Summary,
    UsedSymbol,
)
from patchgen.compiler.flatten import Draft
from patchgen.compiler.settings import Settings
from patchgen.formatting.format import Request
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.locate import Environment
from patchgen.syntax.text import read_source
from tests.toytree import Tree

PYPROJECT = """
[tool.patchgen]
sources = ["modular"]
outputs = { modular = "generated" }
roots = ["lib"]
"""
PARENT = """class A:
    x = 1


class B:
    y = 2
"""


def stand_in(path: Path, env: Environment, settings: Settings) -> Flattened:
    """One modeling file, and a configuration file for a modular file that says so."""
    display_path = env.display_path(path)
    try:
        source = read_source(path, display_path=display_path)
    except PatchgenError as error:
        return Flattened(problems=(error.problem,))
    if "# defect" in source.text:
        raise RuntimeError("the core\ndid not expect this")
    if "import" not in source.text:
        return Flattened()
    stem = path.stem.removeprefix("modular_")
    parts, used, lines = (
        [f"# {BANNER} {display_path}: edit that file.\n# {settings.formatter}\n"],
        [],
        [],
    )
    for module, names in re.findall(r"^from (\S+) import (.*)$", source.text, re.MULTILINE):
        try:
            facts = env.index(module, Location(display_path, 1, 1))
        except PatchgenError as error:
            return Flattened(problems=(error.problem,))
        for name in names.split(", "):
            block = facts.definition(name)
            if block is None:
                return Flattened(
                    problems=(
                        PatchgenError("PG101", Location(display_path, 1, 1), f"no {name}").problem,
                    )
                )
            digest = hashlib.sha256(block.text.encode()).hexdigest()
            used.append(UsedSymbol(f"{module}.{name}", digest, facts.source.path))
            first = "".join(parts).count("\n") + 1
            lines.append(
                LineOrigin(
                    first, first + block.text.count("\n") - 1, facts.source.path, block.first
                )
            )
            parts.append(block.text)
    parts.append(source.text)
    text = "".join(parts)
    summary = Summary(("A",), ("toy",))
    notes = (Note(Location(display_path, 1, 1), "a note"),)
    base = ("lib/toy.py", "".join(parts[:-1]))
    files = [
        FlatFile(
            "modeling",
            f"modeling_{stem}.py",
            text,
            tuple(used),
            lambda: tuple(lines),
            notes,
            summary,
            base,
        )
    ]
    if "# configuration" in source.text:
        files.append(FlatFile("configuration", f"configuration_{stem}.py", parts[0], tuple(used)))
    return Flattened(tuple(files))


def as_draft(flatten):
    """`flatten` as a run calls the core: here it needs nothing formatted."""

    def make_draft(path, env, settings):
        flattened = flatten(path, env, settings)
        return Draft(Request({}, settings), lambda formatted: flattened)

    return make_draft


def install(monkeypatch) -> None:
    """The stand-in takes the place of the core, in this process."""
    import patchgen.compiler.flatten
    import patchgen.project.run

    monkeypatch.setattr(patchgen.compiler.flatten, "make_draft", as_draft(stand_in))
    monkeypatch.setattr(
        patchgen.project.run, "FILES_THAT_PAY", 1_000_000
    )  # a worker would load the core itself


def standin_project(top: Path) -> Tree:
    """A project of two modular files and one parent, not yet converted."""
    tree = Tree(top)
    tree.write("pyproject.toml", PYPROJECT)
    tree.write("lib/toy.py", PARENT)
    tree.write("modular/one/modular_one.py", "from toy import A\nx = 3\n")
    tree.write("modular/two/modular_two.py", "from toy import A, B\ny = 4\n")
    return tree
