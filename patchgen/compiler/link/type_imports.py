"""Leave out imports for type checkers of what the flat file holds itself.

if TYPE_CHECKING:
    from .blocks import Block       left out: `class Block` stands in the flat file
    from .cache import Cache        kept

In: the blocks of an output.  Out: the same blocks, with these imports left out.  The annotations
that read such a name mean the definition in the flat file already.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.plan.model import Symbol


def leave_out_own_imports(blocks: Iterable[FlatBlock], builder: Builder) -> Iterator[FlatBlock]:
    """The blocks, without imports under `if TYPE_CHECKING:` of what one of them defines."""
    found = tuple(blocks)
    held = _find_held_symbols(found, builder)
    for block in found:
        own = _find_own_names(block, held, builder)
        # Nearly every block is no such statement, or imports nothing of this file.
        thinned = _leave_out(block, own) if own else block
        if thinned is not None:
            yield thinned


def _find_held_symbols(blocks: Iterable[FlatBlock], builder: Builder) -> frozenset[Symbol]:
    """What the statements that run define, by the names of their own modules."""
    held: set[Symbol] = set()
    for block in blocks:
        source = builder.source_block(block.block_id)
        # An import is a block where its name is bound by something else as well.
        if block.kind == "import" or source.is_for_types:
            continue
        held |= {Symbol(block.block_id.module, name) for name in source.defines}
        held |= {rewritten.symbol for rewritten in block.rewritten}
    return frozenset(held)


def _find_own_names(block: FlatBlock, held: frozenset[Symbol], builder: Builder) -> frozenset[str]:
    """The names that `block` imports for type checkers, of what the flat file holds."""
    source = builder.source_block(block.block_id)
    if not source.is_for_types:
        return frozenset()
    index, bindings = builder.index(block.block_id.module), builder.naming.bindings
    own: set[str] = set()
    for item in source.imports:
        at = index.source.at(item.line, item.column)
        if bindings.canonical(bindings.imported_symbol(index, item), at) in held:
            own.add(item.bound)
    return frozenset(own)


def _leave_out(block: FlatBlock, names: frozenset[str]) -> FlatBlock | None:
    """`block` without imports of `names`; None where nothing is left under its `if`."""
    guard = ast.parse(block.text).body[0]
    assert isinstance(guard, ast.If)
    lines = block.text.splitlines(keepends=True)
    # From below, so that the lines above keep their numbers.
    for node in reversed(guard.body):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        kept = [alias for alias in node.names if (alias.asname or alias.name) not in names]
        if len(kept) == len(node.names):
            continue
        node.names = kept
        written = [f"{' ' * node.col_offset}{ast.unparse(node)}\n"] if kept else []
        lines[node.lineno - 1 : node.end_lineno] = written
    # `import` without names is one that is left out.
    left = [node for node in guard.body if getattr(node, "names", True)]
    if not left:
        return None
    text = "".join(lines)
    shares_line = guard.lineno == guard.body[0].lineno or ";" in block.text
    # Statements without lines of their own are written anew.
    if shares_line:
        guard.body = left
        text = f"{ast.unparse(guard)}\n"
    defines = tuple(name for name in block.defines if name not in names)
    return replace(block, text=text, defines=defines)
