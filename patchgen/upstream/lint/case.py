"""Read a modular file of transformers with its parents and its outputs.

In: a path, and `read`, which gives the text of a file.  Out: a `Case`, in which each class stands
beside its parent and its shipped text.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from patchgen.syntax.blocks import first_line
from patchgen.syntax.errors import Location, PatchgenError
from patchgen.syntax.text import Source, make_source, parse_text
from patchgen.upstream.facts import Block, FileFacts, What, read_facts
from patchgen.upstream.kinds import KINDS
from patchgen.upstream.lint.normalize import normalize_tree, parse_normalized
from patchgen.upstream.names import NameTable, Renaming, read_table
from patchgen.upstream.parents import Parent, make_parents
from patchgen.upstream.prefixes import common_suffix

Read = Callable[[Path], str | None]
Scope = ast.Module | ast.ClassDef


@dataclass(frozen=True)
class Shipped:
    """One output as it lies beside the modular file; `top` holds its last definition of each name.

    `first` is the line on which each of them begins, with its decorators.
    """

    kind: str
    display_path: str
    text: str = field(repr=False)
    tree: ast.Module = field(repr=False)
    first: Mapping[str, int] = field(repr=False)

    @functools.cached_property
    def top(self) -> Mapping[str, ast.stmt]:
        """The definitions at the top of the file, by name."""
        return definitions(self.tree)

    @functools.cached_property
    def lines(self) -> tuple[str, ...]:
        """The lines of the text."""
        return tuple(self.text.split("\n"))

    def definition(self, name: str) -> str:
        """The text of the definition `name`."""
        return "\n".join(self.lines[self.first[name] - 1 : self.top[name].end_lineno])


@dataclass(frozen=True)
class Pair:
    """A modular class and its class of another model, which is `renamed` as transformers renames
    it.
    """

    block: Block
    base: str
    parent: Parent
    renamed: str
    parent_block: Block
    parent_text: str = field(repr=False)

    @property
    def name(self) -> str:
        """The name of the modular class."""
        return self.block.name

    @functools.cached_property
    def child(self) -> ast.ClassDef:
        """The modular class, its lines counted from its first decorator."""
        return class_in(self.block.text, self.name)

    @functools.cached_property
    def above(self) -> ast.ClassDef:
        """The parent class, renamed."""
        return class_in(self.parent_text, self.renamed)


@dataclass(frozen=True)
class Case:
    """One modular file; `path` is as read, `source` as shown."""

    path: Path
    source: Source
    facts: FileFacts
    parents: Mapping[tuple[str, ...], Parent]
    pairs: tuple[Pair, ...]
    shipped: tuple[Shipped, ...]

    @property
    def model(self) -> str:
        """The text between `modular_` and `.py`."""
        return self.path.stem.removeprefix("modular_")

    def at(self, block: Block, node: ast.AST | None = None) -> Location:
        """The place of `node`, which was read from the text of `block`.

        Without one, of the block itself.
        """
        # Nothing else has a line for sure.
        if node is None or not isinstance(node, ast.stmt | ast.expr):
            return Location(self.source.path, block.line, 1)
        return self.source.at(block.first_line + node.lineno - 1, node.col_offset)

    def output_of(self, name: str) -> Shipped | None:
        """The output that defines `name`."""
        return next((one for one in self.shipped if name in one.top), None)

    def shipped_class(self, name: str) -> ast.ClassDef | None:
        """The shipped class of that name."""
        output = self.output_of(name)
        node = output.top[name] if output else None
        return node if isinstance(node, ast.ClassDef) else None

    def is_shipped(self, name: str, text: str) -> bool:
        """Whether the class `name` is shipped word for word as `text`."""
        output = self.output_of(name)
        return output is not None and output.definition(name) == text.strip("\n")


def make_case(path: Path, read: Read, display_path: Callable[[Path], str]) -> Case:
    """The modular file at `path`.

    Raises PatchgenError for what transformers itself would not convert.
    """
    text = read(path)
    if text is None:
        raise PatchgenError("PG001", Location(display_path(path)), "does not exist")
    models = path.parent.parent
    facts = read_facts(text, path.as_posix())
    table = _table(
        read(models / "auto/auto_mappings.py") or "",
        read(models / "auto/configuration_auto.py") or "",
    )
    parents = make_parents(facts, path.stem.removeprefix("modular_"), models, read, table)
    source = make_source(text, display_path(path))
    pairs = tuple(_pairs(facts, parents, table))
    return Case(path, source, facts, parents, pairs, tuple(_shipped(path, read, display_path)))


_table = functools.lru_cache(maxsize=8)(read_table)


def _pairs(
    facts: FileFacts, parents: Mapping[tuple[str, ...], Parent], table: NameTable
) -> Iterator[Pair]:
    """Each class that derives from another model's class, with that class as it is renamed."""
    module_of = {one.name: one.module for one in facts.model_imports}
    for block in facts.blocks.values():
        if block.what is not What.CLASS:
            continue
        bases = [base for base in block.bases if base in module_of]
        if not bases:
            continue
        # transformers merges with the first base of another model alone.
        base = bases[0]
        parent = parents[module_of[base]]
        renamed = parent.view.name(base)
        above = parent.facts.blocks.get(base)
        if above is None or above.what is not What.CLASS:
            continue
        text = parent.view.text(above.text)
        # A class may have another name than the renamed parent, which its docstring then shows.
        if block.name != renamed:
            text = _rename_docs(text, renamed, block.name, table)
        yield Pair(block, base, parent, renamed, above, text)


def _rename_docs(text: str, parent: str, child: str, table: NameTable) -> str:
    """`text` with the model's name in strings and comments, as the two class names show it."""
    suffix = common_suffix(child, parent)
    old = table.lower(parent.removesuffix(suffix))
    new = table.lower(child.removesuffix(suffix))
    return Renaming(old, new, table).docs(text)


def _shipped(path: Path, read: Read, display_path: Callable[[Path], str]) -> Iterator[Shipped]:
    """The outputs beside the modular file, as far as they exist."""
    for kind in KINDS:
        output = path.with_name(path.name.replace("modular", kind, 1))
        text = read(output)
        if text is not None:
            tree = parse_text(text, display_path(output))
            # Before the tree is normalised, which takes decorators away.
            first = {name: first_line(node) for name, node in definitions(tree).items()}
            yield Shipped(kind, display_path(output), text, normalize_tree(tree), first)


def class_in(text: str, name: str) -> ast.ClassDef:
    """The tree of a text that is one class; `name` is for messages."""
    tree = parse_normalized(text, name)
    return next(node for node in tree.body if isinstance(node, ast.ClassDef))


def definitions(scope: Scope) -> dict[str, ast.stmt]:
    """The functions, classes and plain assignments in `scope`; of two with one name the last."""
    found: dict[str, ast.stmt] = {}
    for node in scope.body:
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                found[name] = node
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
                found[name] = node
    return found
