"""Which classes of a variant does nothing use?  Such a name is probably misspelt.

    class LlamaRMSNrm(llama.LlamaRMSNorm): ...      # LlamaRMSNorm stays in use, as it was

In: the modules of one plan.  Out: a warning for each class of the modular file that has another name than its parent,
is named nowhere else in the outputs and not in `__all__`, while the parent keeps its place.  Models and configurations
are for those who import the output, and are warned of only where the name is nearly the parent's.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.plan.declare import Declaration, ModulePlan
from patchgen.compiler.plan.model import Symbol
from patchgen.errors import PatchgenError, Problem

_FOR_USERS = frozenset(
    {"PreTrainedModel", "PreTrainedConfig", "PretrainedConfig", "ProcessorMixin"}
)
_NEARLY = 0.9  # of the letters are the same, in the same order


def find_unused_classes(blocks: Sequence[FlatBlock], builder: Builder) -> Iterator[Problem]:
    """A warning for each such class; `blocks` are those of all outputs."""
    plan = builder.naming.plan
    exported = {name for layer in plan.layers for name in layer.exports or ()}
    for declaration in plan.declarations if plan.bases else ():
        name, ancestors = declaration.symbol.name, _ancestors(declaration, builder)
        parent = _parent(name, ancestors, plan)
        if (
            parent is None
            or name in exported
            or declaration.symbol.module != plan.modular.source.module
        ):
            continue
        if (
            not _is_carried(name, blocks)
            or _is_named(name, blocks)
            or not _is_carried(parent.name, blocks)
        ):
            continue
        nearly = _is_nearly(name, parent.name)
        if nearly or not any(symbol.name in _FOR_USERS for symbol in ancestors):
            what = f"nothing uses the class {name}, and {parent.name} stays as it is"
            meant = f"did you mean {parent.name}? " if nearly else ""
            hint = f"{meant}only a class with its parent's name takes its place; what others import belongs in __all__"
            yield Problem(declaration.at, "PG420", what, hint, "warning")


def _ancestors(declaration: Declaration, builder: Builder) -> tuple[Symbol, ...]:
    """The classes that `declaration` derives from, merged into it or not; none where they cannot be known."""
    try:
        return builder.lineages.mro(declaration.symbol, declaration.at)[1:]
    except PatchgenError:
        return ()


def _parent(name: str, ancestors: Sequence[Symbol], plan: ModulePlan) -> Symbol | None:
    """The nearest of the `ancestors` that is a model's class, where none of them has the `name`."""
    models = {*plan.parents, *plan.bases.values()}
    if any(symbol.name == name for symbol in ancestors):
        return None
    return next((symbol for symbol in ancestors if symbol.module in models), None)


def _is_carried(name: str, blocks: Sequence[FlatBlock]) -> bool:
    return any(name in block.defines for block in blocks)


def _is_named(name: str, blocks: Sequence[FlatBlock]) -> bool:
    """Whether the word stands outside its own class, if only in a string."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    return any(name not in block.defines and word.search(block.text) for block in blocks)


def _is_nearly(name: str, other: str) -> bool:
    extends = name.startswith(other) or name.endswith(other)
    return (
        not extends
        and difflib.SequenceMatcher(None, name, other, autojunk=False).ratio() >= _NEARLY
    )
