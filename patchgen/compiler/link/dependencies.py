"""Find what the global names of a flat block stand for.

    class TinyMLP(nn.Module):               nn          torch.nn, imported
        def forward(self, x):               rotate_half llama.rotate_half, carried
            return rotate_half(x)

In: a text and the rewritten blocks that it was made from.  A merged class has blocks of several
modules, and one name may mean another thing in each of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from patchgen.compiler.link.equivalence import is_same_definition
from patchgen.compiler.plan.bindings import Bindings, is_kept
from patchgen.compiler.plan.model import RewrittenBlock, Symbol
from patchgen.syntax.blocks import references_in
from patchgen.syntax.errors import PatchgenError


@dataclass(frozen=True, slots=True)
class Dependency:
    """A global name that a block reads.

    `symbol` is what the name stands for in the module `home`.  `eager`: it is read when the block
    runs, and not only when a function of it is called.
    """

    name: str
    symbol: Symbol
    home: str
    eager: bool


def find_dependencies(
    text: str,
    rewritten_blocks: tuple[RewrittenBlock, ...],
    bindings: Bindings,
) -> tuple[Dependency, ...]:
    """What the global names of `text` stand for in the blocks that it was made from.

    Raises PatchgenError PG401 when a name stands for different things in two blocks.
    """
    found: dict[str, Dependency] = {}
    for reference in references_in(text, False):
        name = reference.name
        known = found.get(name)
        if known is None:
            known = _find_meaning(name, rewritten_blocks, bindings)
        if known is None:
            continue  # a builtin
        # One eager read is enough.
        if reference.eager and not known.eager:
            known = replace(known, eager=True)
        found[name] = known
    return tuple(found.values())


def _find_meaning(
    name: str, rewritten_blocks: tuple[RewrittenBlock, ...], bindings: Bindings
) -> Dependency | None:
    """What `name` stands for in the first block that reads it; the others have to agree."""
    reading = [rewritten for rewritten in rewritten_blocks if name in rewritten.dependencies]
    if not reading:
        return None
    chosen = reading[0]
    for rewritten in reading[1:]:
        known, symbol = chosen.dependencies[name], rewritten.dependencies[name]
        # An import that the user wrote to be kept wins.
        if is_kept(known):
            break
        if is_kept(symbol):
            chosen = rewritten
        elif not is_same_definition(known, symbol, bindings):
            paths = chosen.source.path, rewritten.source.path
            what = f"{name} means {known} in {paths[0]} and {symbol} in {paths[1]}"
            hint = _suggest_name(name, rewritten_blocks[0])
            raise PatchgenError("PG401", rewritten_blocks[0].at(1, 0), what, hint)
    return Dependency(name, chosen.dependencies[name], chosen.symbol.module, eager=False)


def _suggest_name(name: str, own: RewrittenBlock) -> str:
    """What to change in the modular file, of which `own` is, about a name with two meanings."""
    path = own.source.path
    resolved = own.dependencies.get(name)
    if resolved is not None and resolved.module == own.source.module:
        return f"give {name} of {path} another name"
    imports = re.compile(rf"^\s*(?:from|import)\b.*\b{re.escape(name)}\b", re.MULTILINE)
    if imports.search(own.source.text):
        return f"import {name} under another name in {path}"
    return f"define {name} in {path}, where it counts for both, or give one of them another name"
