"""Split a file into a lossless sequence of top-level statements.

`"".join(b.leading + b.text for b in blocks) + tail == source.text`, always.  Statements that share
a line share a block.  A block knows the names that it binds and reads; `compiler.plan` decides what
those names mean.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from patchgen.syntax.bound import bound_by, bound_names
from patchgen.syntax.exports import is_list_of_strings, read_exports
from patchgen.syntax.reads import Reference
from patchgen.syntax.scopes import references
from patchgen.syntax.text import Source, parse
from patchgen.syntax.trees import Position, children, parse_once

_TYPE_CHECKING = re.compile(r"if\s+(?:\w+\.)?TYPE_CHECKING\s*:")


@dataclass(frozen=True, slots=True)
class Import:
    """One name that an import statement binds: `from ..module import name as bound`.

    `name` is "" for `import module as bound`, and for `import a.b`, which binds `a`.
    """

    module: str
    level: int
    name: str
    bound: str
    line: int
    column: int

    @property
    def binds_package(self) -> bool:
        """Whether this is `import a.b`, which binds the package `a`."""
        return not self.name and self.bound == self.module.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Block:
    """One top-level statement as exact text, with the names it binds, reads and imports.

    `kind`: "class", "def", "assign", "import", "guard" (if, try, with and loops), "doc", "main" or
    "other".  "main" is `if __name__ == "__main__":`, which binds nothing: no import runs it.
    `first` and `last` are lines of the file; `leading` is the blank lines and comments above;
    indented comments below belong to the statement.  `bases` are those of a class, and
    `base_positions` where they stand, with lines from 1.
    """

    kind: str
    first: int
    last: int
    leading: str
    text: str
    defines: tuple[str, ...]
    imports: tuple[Import, ...]
    bases: tuple[str, ...] = ()
    base_positions: tuple[Position, ...] = ()

    @property
    def name(self) -> str:
        """The first name that the block binds, or the empty string."""
        return self.defines[0] if self.defines else ""

    @property
    def is_of_exports(self) -> bool:
        """Whether this says or changes what `__all__` is."""
        return "__all__" in self.defines or (not self.defines and self.text.startswith("__all__"))

    @property
    def is_for_types(self) -> bool:
        """Whether this is `if TYPE_CHECKING:`, which never runs."""
        if self.kind != "guard" or not _TYPE_CHECKING.match(self.text):
            return False
        # What stands under `else:` or `elif` does run.
        return "\nel" not in self.text

    @property
    def is_guarded(self) -> bool:
        """Whether what the statement binds depends on what happens when it runs."""
        return self.kind == "guard" and not self.is_for_types

    @property
    def references(self) -> tuple[Reference, ...]:
        """Every read of a global name; lines count from 1 within `text`."""
        return references_in(self.text)

    @property
    def uses(self) -> frozenset[str]:
        """The global names that the block reads, quoted annotations included."""
        return _names_in(self.text)


@dataclass(frozen=True, eq=False)  # without slots, for what is cached
class ModuleIndex:
    """A source with its blocks; `tail` is what follows the last statement."""

    source: Source
    blocks: tuple[Block, ...]
    tail: str

    def count_to(self, block: Block) -> int:
        """How many blocks up to `block` are of its kind and bind nothing."""
        above = self.blocks[: self.blocks.index(block) + 1]
        return sum(earlier.kind == block.kind and not earlier.defines for earlier in above)

    @functools.cached_property
    def _by_name(self) -> Mapping[str, tuple[Block, ...]]:
        """The blocks that bind each name, in order: a file may have thousands of both."""
        return _group(self.blocks, lambda block: block.defines)

    @functools.cached_property
    def _importers(self) -> Mapping[str, tuple[Block, ...]]:
        """The blocks that import each name, in order."""
        return _group(self.blocks, lambda block: [item.bound for item in block.imports])

    @functools.cached_property
    def by_first_line(self) -> Mapping[int, Block]:
        """Each block by the line that it begins on."""
        return {block.first: block for block in self.blocks}

    def blocks_that_bind(self, name: str) -> tuple[Block, ...]:
        """Every block that binds `name`, in order."""
        return self._by_name.get(name, ())

    def definition(self, name: str) -> Block | None:
        """The last block that binds `name` otherwise than by importing it."""
        # At run time the last binding counts.
        for block in reversed(self.blocks_that_bind(name)):
            if name not in {item.bound for item in block.imports}:
                return block
        return None

    def blocks_that_import(self, name: str) -> tuple[Block, ...]:
        """Every block with an import of `name`, in order."""
        return self._importers.get(name, ())

    def imported(self, name: str) -> Import | None:
        """The last import that binds `name`, guarded ones included."""
        for block in reversed(self.blocks_that_import(name)):
            return next(item for item in reversed(block.imports) if item.bound == name)
        return None

    def binders(self, name: str) -> tuple[Block, ...]:
        """The blocks that bind `name`, in order.

        Those under `if TYPE_CHECKING:` count only where there are no others.
        """
        found = self.blocks_that_bind(name)
        at_run_time = tuple(block for block in found if not block.is_for_types)
        return at_run_time or found

    def is_read_between(self, name: str) -> bool:
        """Whether a statement that runs below the first that binds `name` reads it.

        The last that binds it, and what stands below that, read the last value or their own.
        """
        first = self.binders(name)[0]
        last = self.binders(name)[-1]
        for block in self.blocks:
            if first.first < block.first <= last.first:
                if any(read.name == name and read.eager for read in block.references):
                    return True
        return False

    @functools.cached_property
    def imports(self) -> tuple[Import, ...]:
        """What the module imports at its top level, guarded imports included, in order."""
        return tuple(chain.from_iterable(block.imports for block in self.blocks))

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that the module binds, in order of first binding."""
        return tuple(self._by_name)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the top-level classes, in order."""
        return tuple(block.name for block in self.blocks if block.kind == "class")

    @property
    def exports(self) -> tuple[str, ...] | None:
        """The strings in `__all__` after the last statement about it; None without a statement."""
        stated = tuple(block.text for block in self._export_blocks)
        return read_exports(stated) if stated else None

    @property
    def unread_exports(self) -> Block | None:
        """The first statement about `__all__` that is more than strings in a list."""
        unread = (b for b in self._export_blocks if not is_list_of_strings(b.text))
        return next(unread, None)

    @property
    def _export_blocks(self) -> list[Block]:
        return [block for block in self.blocks if block.is_of_exports]


def _group(
    blocks: Iterable[Block], names_of: Callable[[Block], Iterable[str]]
) -> dict[str, tuple[Block, ...]]:
    """The blocks of each name, each of them once."""
    groups: dict[str, dict[int, Block]] = {}
    for block in blocks:
        for name in names_of(block):
            groups.setdefault(name, {})[id(block)] = block
    return {name: tuple(blocks.values()) for name, blocks in groups.items()}


# A run may have two environments: the files of a new release are asked for in both.
@functools.lru_cache(maxsize=256)
def index(source: Source) -> ModuleIndex:
    """Partition `source` into blocks.

    Raises PatchgenError PG006 where it is not valid Python.
    """
    return index_tree(source, parse(source))


def index_tree(source: Source, tree: ast.Module) -> ModuleIndex:
    """`index` for a tree that the caller has parsed already."""
    blocks: list[Block] = []
    end = 0
    # Blocks are whole lines, so that they can be moved as text.
    for group in _group_by_line(tree.body):
        first = first_line(group[0])
        last = max(node.end_lineno or node.lineno for node in group)
        last = _find_last_comment(source, last)
        leading = source.slice(end + 1, first - 1)
        blocks.append(_make_block(source, group, leading, first, last))
        end = last
    return ModuleIndex(source, tuple(blocks), source.slice(end + 1, len(source.lines)))


def _find_last_comment(source: Source, last: int) -> int:
    """The last line of a statement whose code ends on line `last`, with its comments below."""
    found = last
    for number in range(last + 1, len(source.lines) + 1):
        line = source.lines[number - 1]
        # An indented comment is the end of a body, and moves with it.
        if line[:1].isspace() and line.lstrip().startswith("#"):
            found = number
        elif line.strip():
            break
    return found


@functools.lru_cache(maxsize=4096)
def references_in(text: str) -> tuple[Reference, ...]:
    """Every read of a global name in the statements of `text`."""
    # On demand: most blocks of a parent are copied without anyone asking what they read.
    return references(parse_once(text).body)


@functools.lru_cache(maxsize=4096)
def _names_in(text: str) -> frozenset[str]:
    return frozenset(reference.name for reference in references_in(text))


def first_line(node: ast.stmt) -> int:
    """The line on which a statement begins, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def imports_of(nodes: Iterable[ast.AST]) -> Iterator[Import]:
    """The names that import statements at module level bind, guarded ones included."""
    # A stack in reverse order yields the imports in the order of the text.
    stack = list(nodes)[::-1]
    while stack:
        node = stack.pop()
        match node:
            case ast.Import() | ast.ImportFrom():
                # `from . import x` has no module, and `import a` no name of something in it.
                is_from = isinstance(node, ast.ImportFrom)
                level = node.level if isinstance(node, ast.ImportFrom) else 0
                for alias in node.names:
                    module = (getattr(node, "module", None) or "") if is_from else alias.name
                    name = alias.name if is_from else ""
                    bound = bound_by(alias)
                    line = alias.lineno
                    column = alias.col_offset
                    yield Import(module, level, name, bound, line, column)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                pass
            case _:
                # No expression holds an import, and expressions are most of the tree.
                inner = [child for child in children(node) if not isinstance(child, ast.expr)]
                stack += reversed(inner)


def _group_by_line(body: Sequence[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Groups of statements that share a line, as `import a; import b` do."""
    group: list[ast.stmt] = []
    for node in body:
        # `a = 1; b = 2` ends and begins on the same line, and stays one group.
        if group and first_line(node) > (group[-1].end_lineno or 0):
            yield group
            group = []
        group.append(node)
    if group:
        yield group


def _make_block(
    source: Source, group: list[ast.stmt], leading: str, first: int, last: int
) -> Block:
    """The block of `group`: statements that share a line, nearly always one."""
    node = group[0]
    bases: list[ast.expr] = node.bases if isinstance(node, ast.ClassDef) else []
    binding = [] if is_main(node) else group
    return Block(
        kind=_find_kind(group),
        first=first,
        last=last,
        leading=leading,
        text=source.slice(first, last),
        defines=tuple(dict.fromkeys(bound_names(binding))),
        imports=tuple(imports_of(binding)),
        bases=tuple(map(ast.unparse, bases)),
        base_positions=tuple((base.lineno - first + 1, base.col_offset) for base in bases),
    )


def list_run(tree: ast.Module) -> list[ast.stmt]:
    """The statements that an import runs."""
    return [node for node in tree.body if not is_main(node)]


def is_main(node: ast.stmt) -> bool:
    """Whether `node` is `if __name__ == "__main__":` without an `else:`."""
    if not isinstance(node, ast.If) or node.orelse:
        return False
    return ast.unparse(node.test) == "__name__ == '__main__'"


def _find_kind(group: list[ast.stmt]) -> str:
    """What a group is, in the words of `Block.kind`."""
    # Statements on one line are imports only if all of them are: the line moves as a whole.
    if len(group) > 1:
        are_imports = all(isinstance(node, ast.Import | ast.ImportFrom) for node in group)
        return "import" if are_imports else "other"
    node = group[0]
    match node:
        case ast.ClassDef():
            return "class"
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return "def"
        case ast.Import() | ast.ImportFrom():
            return "import"
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            return "assign"
        case ast.Expr(value=ast.Constant(value=str())):
            return "doc"
        case ast.If() if is_main(node):
            return "main"
        case ast.If() | ast.Try() | ast.With() | ast.For() | ast.While() | ast.Match():
            return "guard"
    # `type Pair = tuple[int, int]`, from Python 3.12 on.
    is_type_alias = type(node).__name__ == "TypeAlias"
    return "assign" if is_type_alias else "other"
