"""Counts overrides whose parent changed between two releases, and those that `check` names.

python benchmarks/stale.py FORKS OLD NEW

FORKS is a folder of changed copies of modeling files, made from the unpacked release OLD; NEW is
the next release.  For each copy, a modular file is written that overrides every method and
function that the copy changed.  What they do is left out: it plays no part.  The modular file is
converted on OLD and checked on NEW.  The table goes to stdout as Markdown: an override whose parent
changed has to be named, and no other may be.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rebase import _PARENT, release_in

from patchgen.author.adopt.read import read_fork
from patchgen.author.align.file import File
from patchgen.author.rebase.code import member_of
from patchgen.author.rebase.releases import Tree
from patchgen.cli import main as patchgen
from patchgen.compiler.settings import Settings
from patchgen.syntax.locate import make_environment
from patchgen.syntax.same import Function, plain_text

PROJECT = '[tool.patchgen]\nsources = ["modular"]\noutputs = { modular = "generated" }\n'
KEPT = frozenset({"property", "staticmethod", "classmethod"})  # without these, calls would not fit


@dataclass(frozen=True)
class Override:
    """A method of a class, or a function if `owner` is empty; `changed` in the new release."""

    owner: str
    method: Function
    changed: bool

    @property
    def name(self) -> str:
        return f"{self.owner}.{self.method.name}" if self.owner else self.method.name


def main() -> int:
    """Print a row for each copy, and the sums."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("forks", "old", "new"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    roots = [release_in(folder, parser).root() for folder in (options.old, options.new)]
    print("| fork | overrides | parent changed | named | named without need |")
    print("|---|---|---|---|---|")
    sums = [0, 0, 0, 0]
    for path in sorted(options.forks.resolve().glob("*.py")):
        row = counts_of(path, [root.resolve() for root in roots])
        sums = [one + more for one, more in zip(sums, row, strict=True)]
        print(f"| {path.stem} | {' | '.join(map(str, row))} |", flush=True)
    print(f"| all | {' | '.join(map(str, sums))} |")
    return int(sums[1] != sums[2] or sums[3] > 0)


def counts_of(path: Path, roots: Sequence[Path]) -> list[int]:
    """The counts of a row."""
    fork = read_fork(path, path.name, Settings(), generated=True)
    found = _PARENT.search(fork.source.text)
    if found is None:
        return [0, 0, 0, 0]
    module = found[0]
    trees = [Tree(make_environment(path.parent, root, ())) for root in roots]
    overrides = list(overrides_of(fork, module, trees))
    named = names_of(declaration_of(overrides, module), roots)
    changed = {override.name for override in overrides if override.changed}
    return [len(overrides), len(changed), len(named & changed), len(named - changed)]


def overrides_of(fork: File, module: str, trees: Sequence[Tree]) -> Iterator[Override]:
    """The functions and methods that a copy changed."""
    base = trees[0].file(module)
    if base is None:
        return
    for name, definition in fork.definitions.items():
        is_class = definition.kind == "class"
        for owner, member in (
            [(name, one) for one in definition.members] if is_class else [("", name)]
        ):
            before, own = member_of(base, owner, member), member_of(fork, owner, member)
            if before is None or own is None or before.function is None or own.function is None:
                continue
            if plain_text(before.function) == plain_text(own.function):
                continue
            after = trees[1].member(module, owner, member)
            is_same = after is not None and after[2].says == before.says
            yield Override(owner, before.function, not is_same)


def declaration_of(overrides: Sequence[Override], module: str) -> str:
    """A modular file with these overrides, which do nothing."""
    package, _, last = module.rpartition(".")
    lines = [f"from {package} import {last} as parent"]
    by_owner: dict[str, list[Override]] = {}
    for override in overrides:
        by_owner.setdefault(override.owner, []).append(override)
    for owner, members in by_owner.items():
        margin = " " * 4 if owner else ""
        lines += [f"class {owner}(parent.{owner}):"] if owner else []
        for override in members:
            method = override.method
            names = [one.id for one in method.decorator_list if hasattr(one, "id")]
            lines += [f"{margin}@{name}" for name in names if name in KEPT]
            this = "self, " if owner and "staticmethod" not in names else ""
            lines += [
                f"{margin}def {method.name}({this}*args, **kwargs):",
                f"{margin}    return None",
            ]
    return "\n".join(lines) + "\n"


def names_of(declaration: str, roots: Sequence[Path]) -> set[str]:
    """The overrides that are named after converting on the first release, on the second."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        modular = Path(place, "modular", "modular_fork.py")
        modular.parent.mkdir()
        modular.write_text(declaration, encoding="utf-8")
        Path(place, "pyproject.toml").write_text(PROJECT, encoding="utf-8")
        os.chdir(place)
        try:
            printed(["convert", "--package-root", str(roots[0])])
            output = printed(["check", "--package-root", str(roots[1])])
        finally:
            os.chdir(here)
    return {override["override"] for override in output.get("overrides", [])}


def printed(words: Sequence[str]) -> Any:
    """What a command prints as JSON."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        patchgen([*words, "--output-format", "json"])
    return json.loads(out.getvalue())


if __name__ == "__main__":
    sys.exit(main())
