"""Read the files that a modular file derives from, each with its renaming.

In: the facts of the modular file.  Out: a `Parent` for every file of another model that it imports
from, by module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchgen.syntax.errors import Location, PatchgenError
from patchgen.upstream.facts import FileFacts, ImportText, ModelImport, What, read_facts
from patchgen.upstream.graph import Graph, View
from patchgen.upstream.names import (
    KIND_OF_FILE,
    NameTable,
    Renaming,
    choose,
    prefix_of,
    without_collision,
)


@dataclass(frozen=True)
class Parent:
    """A file of another model as the outputs see it."""

    kind: str
    facts: FileFacts
    view: View
    graph: Graph

    @functools.cached_property
    def imports(self) -> tuple[ImportText, ...]:
        """Its imports, those from its own model renamed."""
        return tuple(
            ImportText(one.leading, self.view.text(one.text), one.guard)
            if "from ." in one.text
            else one
            for one in self.facts.imports
        )


def make_parents(
    facts: FileFacts, model: str, models: Path, read: Callable[[Path], str | None], table: NameTable
) -> Mapping[tuple[str, ...], Parent]:
    """The parents of the modular file, in the order in which it imports them.

    Raises PatchgenError PG603 where one is missing, PG605 where a class has two.
    """
    declared: dict[tuple[str, ...], list[tuple[str, str]]] = {
        one.module: [] for one in facts.model_imports
    }
    module_of = {one.name: one.module for one in facts.model_imports}
    for block in facts.blocks.values():
        if block.what is What.CLASS:
            bases = [base for base in block.bases if base in module_of]
            # Only the text of one class can stand in the place of the base.
            if len(bases) > 1:
                what = (
                    f"class `{block.name}` derives from two classes of other "
                    f"models: {' and '.join(bases)}"
                )
                at = Location(facts.path, block.line, 1)
                hint = "derive from one of them and repeat what is needed of the other"
                raise PatchgenError("PG605", at, what, hint)
            for base in bases:
                declared[module_of[base]].append((block.name, base))
    # Reversed, so that the first import of a module is the one that messages show.
    lines = {one.module: one for one in reversed(facts.model_imports)}
    parents: dict[tuple[str, ...], Parent] = {}
    for module, pairs in declared.items():
        theirs = _parent_facts(lines[module], facts, models, read)
        parents[module] = _make_parent(theirs, module, pairs, model, table)
    return parents


def _parent_facts(
    one: ModelImport, facts: FileFacts, models: Path, read: Callable[[Path], str | None]
) -> FileFacts:
    """The facts of an imported file.  Raises PG603 where it does not exist."""
    path = models.joinpath(*one.module).with_suffix(".py")
    text = read(path)
    if text is None:
        what = f"imports from {'.'.join(one.module)}, which does not exist"
        hint = "look for it under `models/`; if another modular file gives it, convert that one too"
        raise PatchgenError("PG603", Location(facts.path, one.line, 1), what, hint)
    return read_facts(text, path.as_posix())


def _make_parent(
    facts: FileFacts,
    module: tuple[str, ...],
    pairs: list[tuple[str, str]],
    model: str,
    table: NameTable,
) -> Parent:
    """The file under the prefix that the class names in `pairs` show."""
    old, cased = module[-2], table.cased(model)
    cased_old = table.cased(old)
    new = model
    if pairs:
        # Without a class of its own, the file gets the model's name.
        prefix = choose((prefix_of(name, base, cased, cased_old) for name, base in pairs), cased)
        new = table.lower(without_collision(prefix, cased, cased_old, facts.text)).replace("-", "_")
    view = View("/".join(module), Renaming(old, new, table), model)
    kind = KIND_OF_FILE.match(module[-1])
    return Parent(kind[1] if kind else "", facts, view, Graph(view, facts))
