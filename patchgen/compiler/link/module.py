"""A flat module as text, before formatting: header, imports, blocks.

Also the parent made comparable: the followed module through the same door with nothing declared, so that the
checked-in diff shows the variant and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchgen.compiler.link.conversions import IMPORT
from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.link.footer import render_conversions, render_initialization
from patchgen.compiler.link.gather import Gathered, gather
from patchgen.compiler.link.heads import rebind_heads
from patchgen.compiler.link.imports import find_needed_imports, render_imports
from patchgen.compiler.link.late_imports import find_late_imports
from patchgen.compiler.link.order import order
from patchgen.compiler.plan.declare import ModulePlan
from patchgen.compiler.plan.kinds import MODELING
from patchgen.compiler.plan.model import Symbol
from patchgen.errors import PatchgenError
from patchgen.syntax.blocks import ModuleIndex
from patchgen.syntax.text import declares_another_encoding


@dataclass(frozen=True)
class FlatModule:
    """One output, complete but for banner and formatting; `blocks` stand in `body` in this order.

    `opening` is what stands above them: licence, docstring and the imports whose order nobody can tell.
    """

    kind: str
    base: str | None
    opening: str
    body: str
    blocks: tuple[FlatBlock, ...]
    requests: tuple[tuple[str, Symbol], ...]


def link(kind: str, requested: tuple[Symbol, ...], builder: Builder) -> FlatModule:
    """The flat module of `kind`.

    Raises PatchgenError PG4xx where names clash or blocks cannot be ordered.
    """
    gathered = gather(kind, requested, builder)
    if kind == MODELING:
        gathered = rebind_heads(gathered, builder)
    needed = find_needed_imports(gathered, builder)
    late = find_late_imports(needed, gathered, builder)
    held = {block.unit for block in gathered.blocks}
    gathered = replace(
        gathered, blocks=(*gathered.blocks, *(block for block in late if block.unit not in held))
    )
    blocks = order(gathered, builder)
    in_place = {block.unit for block in late}
    imports = render_imports(
        gathered, tuple(each for each in needed if each.unit not in in_place), builder
    )
    asked = kind == MODELING and bool(
        builder.naming.plan.modular.blocks
    )  # the parent made comparable says nothing
    converted = render_conversions(blocks, builder) if asked else ""
    if converted:
        imports = (*imports, f"{IMPORT}\n")
    ending = "".join([render_initialization(blocks, builder), converted]) if asked else ""
    tail = builder.index(gathered.base).tail if gathered.base else ""
    docs = [block for block in blocks if block.kind == "doc"][:1]
    opening = "".join([header(gathered, builder), *(block.text for block in docs), *imports])
    body = assemble([b for b in blocks if b not in docs], tail, _exports(gathered, builder))
    body += f"\n\n{ending}" if ending else ""
    requests = tuple(
        (sibling, _key(builder, need.symbol, need.home)) for sibling, need in gathered.siblings
    )
    return FlatModule(kind, gathered.base, opening, body, blocks, requests)


def assemble(blocks: Sequence[FlatBlock], tail: str, exports: str) -> str:
    """The blocks and the comments behind the last one, as one text; `exports` takes the place of every `__all__`."""
    parts = ["\n"]
    for block in blocks:
        if not (exports and _is_of_exports(block)):
            parts.append(_leading(block) + block.text)
    return "".join([*parts, tail if tail.strip() else "", exports])


def _is_of_exports(block: FlatBlock) -> bool:
    """Whether a statement says or changes what `__all__` is."""
    return "__all__" in block.defines or (not block.defines and block.text.startswith("__all__"))


def header(gathered: Gathered, builder: Builder) -> str:
    """The comments at the top of the modular file and the licences of the modules that the output was made from."""
    plan = builder.naming.plan
    parents = [
        *([gathered.base] if gathered.base else plan.parents),
        *origins(gathered.blocks, plan),
    ]
    texts = [
        _comment_at_top(builder.index(module)) for module in (plan.modular.source.module, *parents)
    ]
    return "#\n".join(dict.fromkeys(text for text in texts if text))


def origins(blocks: Sequence[FlatBlock], plan: ModulePlan) -> tuple[str, ...]:
    """The modules of others that `blocks` were copied from: parents, and where functions were imported from."""
    own = {layer.source.module for layer in plan.layers}
    every = dict.fromkeys(piece.symbol.module for block in blocks for piece in block.pieces)
    return tuple(
        m for m in every if m not in own and (m in plan.parents or m.startswith("transformers."))
    )


def _comment_at_top(index: ModuleIndex) -> str:
    """The first comment block of a file with the line ends that it has; shebang and coding lines left out."""
    lines = (index.blocks[0].leading if index.blocks else index.tail).splitlines(True)
    beside = [line for line in lines if not line.startswith("#!") and "coding:" not in line]
    kept = [line for line in beside if not declares_another_encoding(line)]
    # Between two such lines, transformers says that the file is generated and from what: that is not so of a copy.
    marks = [number for number, line in enumerate(kept) if "🚨" in line]
    kept = kept[: marks[0]] + kept[marks[-1] + 1 :] if marks else kept
    return "".join(kept).strip("\n") + "\n" if "".join(kept).strip() else ""


def _leading(block: FlatBlock) -> str:
    """The comments above a block; the licence above the first one has its own place."""
    first = block.pieces[-1].source.slice(1, block.pieces[-1].first - 1)
    return "\n\n" if first == block.leading else block.leading or "\n"


def _exports(gathered: Gathered, builder: Builder) -> str:
    """`__all__` of the output: the followed module's and what the modular file adds; "" leaves the block as it is."""
    plan = builder.naming.plan
    declared = [name for layer in reversed(plan.layers) for name in layer.exports or ()]
    here = {name for block in gathered.blocks for name in block.defines}
    if gathered.base is None:
        names = [name for name in declared if name in here]
    else:
        base = builder.index(gathered.base).exports
        if base is None or all(name in base for name in declared if name in here):
            return ""
        names = [*base, *(name for name in declared if name in here and name not in base)]
    for module in [*plan.layers, *([builder.index(gathered.base)] if gathered.base else [])]:
        if module.unread_exports is not None:
            at = module.source.at(module.unread_exports.first)
            hint = "write the names out, as strings in a list"
            raise PatchgenError("PG134", at, "__all__ is worked out when the file runs", hint)
    listed = ", ".join(f'"{name}"' for name in names)
    return f"\n\n__all__ = [{listed}]\n" if names else ""


def _key(builder: Builder, symbol: Symbol, home: str) -> Symbol:
    key = builder.naming.resolve(symbol, home).key
    assert key is not None
    return key
