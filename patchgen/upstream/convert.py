"""Convert one modular file of transformers to the texts of its outputs, before linting.

In: the path of the modular file, and `read`, which gives the text of a file.  Through `read`, an
output that was made just before can stand in for the file on disk.  Out: one `Output` for each
kind.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

from patchgen.syntax.errors import Location, PatchgenError, did_you_mean
from patchgen.syntax.text import parse_text
from patchgen.upstream.emission import Body, inherited_order, own_order, reached
from patchgen.upstream.exports import split_all, split_getattr
from patchgen.upstream.facts import Block, FileFacts, ImportText, ModelImport, What, read_facts
from patchgen.upstream.graph import Graph, View
from patchgen.upstream.header import header
from patchgen.upstream.imaging_imports import with_copies
from patchgen.upstream.imports import select_imports
from patchgen.upstream.merge import ClassText, merge_class
from patchgen.upstream.model import Output
from patchgen.upstream.names import NameTable, Renaming, common_suffix, kind_of, read_table
from patchgen.upstream.parents import Parent, make_parents
from patchgen.upstream.uses import make_named_text

Read = Callable[[Path], str | None]


def convert(path: Path, read: Read) -> tuple[Output, ...]:
    """The outputs of the modular file at `path`, which lies in `models/NAME` of the package.

    `read` gives a file's text, or None where there is no file.
    Raises PatchgenError PG001, PG006 and PG601 to PG622.
    """
    text = read(path)
    if text is None:
        raise PatchgenError("PG001", Location(path.as_posix()), "does not exist")
    models = path.parent.parent
    facts = read_facts(text, path.as_posix())
    # A part of a package may lack these tables: names are then cased piece by piece.
    table = _table(
        read(models / "auto/auto_mappings.py") or "",
        read(models / "auto/configuration_auto.py") or "",
    )
    model = path.stem.removeprefix("modular_")
    parents = make_parents(facts, model, models, read, table)
    return _Conversion(path, model, facts, parents, table).outputs()


# All files of a run share one table, which takes long to read.
_table = functools.lru_cache(maxsize=8)(read_table)


class _Conversion:
    """The state of one conversion: the bodies grow class by class."""

    def __init__(
        self,
        path: Path,
        model: str,
        facts: FileFacts,
        parents: Mapping[tuple[str, ...], Parent],
        table: NameTable,
    ) -> None:
        self.path = path
        self.model = model
        self.cased = table.cased(model)
        self.facts = facts
        self.parents = parents
        self.table = table
        self.classes = frozenset(
            name for name, block in facts.blocks.items() if block.what is What.CLASS
        )
        self.graph = Graph(View("", None, model), facts)
        self.bodies: dict[str, Body] = {}
        self.created: dict[str, ImportText] = {}
        self.hidden = self._sibling_names()
        self.by_name: dict[str, ModelImport] = {one.name: one for one in facts.model_imports}
        self._join_graphs()

    def route(self, name: str) -> str:
        """The kind of a class."""
        return kind_of(name, self.cased)

    def _sibling_names(self) -> dict[str, frozenset[str]]:
        """For each kind, the names that its outputs import from a file beside them."""
        # What a parent's file imports from beside it, its output imports from beside it too.
        hidden: dict[str, frozenset[str]] = {}
        for parent in self.parents.values():
            names = parent.view.names(frozenset(parent.facts.siblings))
            hidden[parent.kind] = hidden.get(parent.kind, frozenset()) | names
        return hidden

    def _join_graphs(self) -> None:
        """Let parents see the modular file's definitions, then the modular file those it
        imports.
        """
        for parent in self.parents.values():
            parent.graph.see(self.graph, parent.view.names(frozenset(parent.facts.siblings)))
            parent.graph.settle()
        own = self.facts.blocks.keys() | {one.name for one in self.facts.model_imports}
        for one in self.facts.model_imports:
            parent = self.parents[one.module]
            node = parent.graph.nodes.get(one.name)
            # An imported class is a parent, and is merged; what is defined here hides the import.
            if node is None or node.is_class or one.name in self.facts.blocks:
                continue
            self.graph.adopt(one.name, parent.graph, own)
            # A function of the modular file counts for the classes of every parent.
            if node.block.what is What.FUNCTION:
                for other in self.parents.values():
                    if other is not parent:
                        other.graph.adopt(one.name, parent.graph)
        self.graph.settle()

    def outputs(self) -> tuple[Output, ...]:
        """The outputs of every kind that a class or an export needs."""
        # Functions and values are placed with the first class that needs them, or not at all.
        for block in self.facts.blocks.values():
            if block.what is What.CLASS:
                self._place(block)
        ends = self._ends()
        kinds = dict.fromkeys((*self.bodies, *ends))
        return tuple(self._output(kind, ends.get(kind, "")) for kind in kinds)

    def _place(self, block: Block) -> None:
        """Put a class of the modular file, and what it needs, into the body of its kind."""
        kind = self.route(block.name)
        body = self.bodies.setdefault(kind, Body())
        base = next((base for base in block.bases if base in self.by_name), None)
        if base is None:
            node = self.graph.nodes[block.name]
            mentioned = self.graph.needs(node.words.all) - {block.name}
            needed = self._of_kind(mentioned, self.graph, kind)
            new = {name for name in needed if name not in body}
            for name in own_order(new, self.graph):
                body.place(name, self.graph.nodes[name].piece)
            body.place(block.name, node.piece)
            return
        parent = self.parents[self.by_name[base].module]
        # What the merged class needs is known only once it is merged: an override may need less.
        piece = make_named_text(self._merged(block, base, parent))
        for name in self._inherited(parent.graph, piece.words.all, kind, body):
            body.place(name, parent.graph.nodes[name].piece)
        body.place(block.name, piece)

    def _inherited(self, graph: Graph, found: frozenset[str], kind: str, body: Body) -> list[str]:
        """What a merged class with the identifiers `found` needs of its parent's file, in order."""

        @functools.cache
        def needs(name: str) -> frozenset[str]:
            return self._of_kind(graph.needs(graph.nodes[name].words.all) - {name}, graph, kind)

        # The classes of the modular file have places of their own.
        start = self._of_kind(graph.needs(found), graph, kind) - self.classes
        return inherited_order(reached(start, graph, needs, body), graph, self.graph, needs)

    def _of_kind(self, names: frozenset[str], graph: Graph, kind: str) -> frozenset[str]:
        """`names` without those that outputs of `kind` import from a sibling."""
        names -= self.hidden.get(kind, frozenset())
        others = sorted(
            name for name in names if graph.nodes[name].is_class and self.route(name) != kind
        )
        # A class of another kind stands in another output of this model.
        for name in others:
            text = f"from .{self.route(name)}_{self.model} import {name}\n"
            self.created[text] = ImportText("", text, guard=False)
        return names - set(others)

    def _merged(self, block: Block, base: str, parent: Parent) -> str:
        """The text of a class of the modular file, joined with its parent class."""
        renamed = parent.view.name(base)
        node = parent.graph.nodes.get(renamed)
        if node is None or not node.is_class:
            what = f"`{base}` is no class of {parent.facts.path}"
            names = [name for name, each in parent.facts.blocks.items() if each.what is What.CLASS]
            raise PatchgenError("PG604", self._at(block), what, did_you_mean(base, names))
        docs = self._docs(block.name, renamed)
        view = node.view
        above = ClassText(renamed, view.text(node.block.leading), view.text(node.block.text))
        own = ClassText(block.name, block.leading, block.text)
        try:
            return merge_class(own, above, base, docs, functools.partial(self._within, block))[0]
        except SyntaxError:
            # Only here are the insides of a parent's class parsed.  To parse the whole file gives
            # an error with its place.
            parse_text(parent.facts.text, parent.facts.path)
            raise

    def _docs(self, name: str, renamed: str) -> Callable[[str], str] | None:
        """How strings and comments of the parent `renamed` are renamed in class `name`."""
        if name == renamed:
            return None
        suffix = common_suffix(name, renamed)
        old, new = (one.removesuffix(suffix) for one in (renamed, name))
        return Renaming(self.table.lower(old), self.table.lower(new), self.table).docs

    def _at(self, block: Block) -> Location:
        return Location(self.facts.path, block.line, 1)

    def _within(self, block: Block, line: int, column: int) -> Location:
        # `ast` counts lines from 1 and columns from 0; messages count both from 1.
        return Location(self.facts.path, block.first_line + line - 1, column + 1)

    def _ends(self) -> dict[str, str]:
        """The text at the end of each file, by kind."""
        ends: dict[str, str] = {}
        # In this order, whichever of them comes first in the modular file.
        for split, statement in (
            (split_getattr, self.facts.deprecated),
            (split_all, self.facts.exports),
        ):
            if statement is None:
                continue
            texts = split(statement.text, statement.leading, self.route)
            for kind, text in texts.items():
                ends[kind] = ends.get(kind, "") + text
        return ends

    def _output(self, kind: str, end: str) -> Output:
        """One output: banner, imports, definitions, and the end of the file."""
        body = self.bodies.get(kind, Body())
        imports = self._imports(body, kind, end)
        # This file must load without torchvision, which the other image processor imports.
        if kind == "image_processing_pil" and (image := self.bodies.get("image_processing")):
            copied = with_copies(body, image, imports)
            if len(copied.names) > len(body.names):
                body, imports = copied, self._imports(copied, kind, end)
        display_path = "/".join(self.path.parts[-3:])
        return Output(kind, header(display_path, self.facts.header) + imports + body.text + end)

    def _imports(self, body: Body, kind: str, end: str) -> str:
        # `__getattr__` at the end calls an imported function.
        pieces = (*body.pieces, make_named_text(end))
        return select_imports(self._pool, pieces, kind, frozenset(body.names))

    @functools.cached_property
    def _pool(self) -> list[ImportText]:
        """Every import that an output could have, the preferred ones first."""
        pool = [*self.facts.imports, *self.created.values()]
        known = {one.text.strip() for one in pool}
        for parent in self.parents.values():
            for one in parent.imports:
                if one.text.strip() not in known:
                    known.add(one.text.strip())
                    pool.append(one)
        return pool
