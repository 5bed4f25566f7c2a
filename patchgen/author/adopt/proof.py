"""Flatten a declaration, and compare the output with the fork."""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Container
from dataclasses import dataclass, replace
from pathlib import Path

from patchgen.author.adopt.bare import lost_statements
from patchgen.author.adopt.forked import ForkedModel
from patchgen.author.align.file import Definition, File, plain_definition, read_file
from patchgen.compiler.flatten import flatten
from patchgen.compiler.settings import Settings
from patchgen.syntax.errors import Problem
from patchgen.syntax.locate import make_environment
from patchgen.syntax.text import make_source


@dataclass(frozen=True)
class Proof:
    """The result of flattening a declaration.

    The output, or why there is none, and what of the fork is not in it.

    `strict` are definitions that are equal as trees with all that documents; `differ` and `missing`
    are not equal.  `heads` were put on the file's own model.  `lost` are statements at the top
    level that the fork added and the output does not run.
    """

    output: str
    problems: tuple[Problem, ...]
    strict: frozenset[str] = frozenset()
    differ: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    lost: tuple[ast.stmt, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every definition of the fork is in the output, and every statement it added."""
        return bool(self.output) and not (self.differ or self.missing or self.lost)


def prove(
    text: str, forked: ForkedModel, name: str, root: Path | None, settings: Settings
) -> Proof:
    """Flatten the declaration `text` of `forked` as the file `name`."""
    output, problems = flatten_text(text, name, root, settings)
    if problems:
        return Proof("", problems)
    lost = lost_statements(forked, read_file(make_source(output, "output.py")))
    return replace(compare(output, forked.fork), lost=lost)


def flatten_text(
    text: str, name: str, root: Path | None, settings: Settings
) -> tuple[str, tuple[Problem, ...]]:
    """The modeling file of the modular file `name` with this text, or the problems."""
    with tempfile.TemporaryDirectory(prefix="patchgen-") as folder:
        home = Path(folder).resolve()
        path = home / "modular" / name
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
        result = flatten(path, make_environment(home, root), settings)
    wanted = name.replace("modular_", "modeling_", 1)
    output = next((file.text for file in result.files if file.name == wanted), "")
    return output, result.problems


def compare(output: str, fork: File) -> Proof:
    """Compare the fork's classes and functions with the text `output`."""
    made = read_file(make_source(output, "output.py")).definitions
    there = {name: d for name, d in fork.definitions.items() if d.kind in ("class", "def")}
    heads = {
        name
        for name, d in there.items()
        if name in made and is_placed(made[name]) and not _has_init(d)
    }
    same = {
        name
        for name, d in there.items()
        if name in made
        and plain_definition(without_written(made[name], d.members if d.kind == "class" else ()))
        == plain_definition(d)
    }
    missing = tuple(name for name in there if name not in made)
    differ = tuple(name for name in there if name in made and name not in same)
    strict = frozenset(
        name
        for name, d in there.items()
        if name in made and [*map(ast.dump, made[name].nodes)] == [*map(ast.dump, d.nodes)]
    )
    more = tuple(
        name
        for name, d in made.items()
        # The converter writes a decorator of this name.
        if d.kind in ("class", "def") and name not in there and name != "auto_docstring"
    )
    return Proof(output, (), strict, differ, missing, more, tuple(sorted(heads & same)))


def is_placed(definition: Definition) -> bool:
    """Whether a class is a general head of transformers, put on this file's own model.

    The converter does so wherever that model differs: with the fork's class they would be heads of
    transformers' own.
    """
    init = definition.members.get("__init__") if definition.kind == "class" else None
    method = init.method if init is not None else None
    return method is not None and ast.unparse(method.body[0]).startswith("super(GenericFor")


def _has_init(definition: Definition) -> bool:
    return definition.kind == "class" and "__init__" in definition.members


def without_written(definition: Definition, kept: Container[str] = ()) -> Definition:
    """A class as transformers has it, without the methods that the converter writes.

    These are the `__init__` of a head that it put on the file's own model, and `is_custom_code`;
    those that are `kept` stay.
    """
    node = definition.node
    if not isinstance(node, ast.ClassDef):
        return definition
    written = {"is_custom_code", *(["__init__"] if is_placed(definition) else [])}
    body = [
        member
        for member in node.body
        if getattr(member, "name", "") not in written or getattr(member, "name", "") in kept
    ]
    if len(body) == len(node.body):
        return definition
    bare = ast.ClassDef(
        node.name, node.bases, node.keywords, body or [ast.Pass()], node.decorator_list
    )
    return Definition(definition.name, "class", (bare,))
