"""Warn of classes of a variant that nothing uses: their names are probably misspelt.

    class LlamaRMSNrm(llama.LlamaRMSNorm): ...      # LlamaRMSNorm stays in use, as it was

In: the modules of one plan.  Out: a warning for each class of the modular file that has another
name than its parent, while the parent stays in the output, and that neither code nor `__all__`
names.  Models and configurations are for those who import the output: of them, only a name that is
nearly the parent's is worth a warning.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from patchgen.compiler.link.flatblock import Builder, FlatBlock
from patchgen.compiler.plan.declare import Declaration, ModulePlan
from patchgen.compiler.plan.model import Symbol
from patchgen.facts.bases import FOR_USERS
from patchgen.syntax.errors import PatchgenError, Problem

# Two names are similar if so much of their letters is the same, in the same order.
_SIMILAR = 0.9


def find_unused_classes(blocks: Sequence[FlatBlock], builder: Builder) -> Iterator[Problem]:
    """A warning for each such class; `blocks` are those of all outputs."""
    plan = builder.naming.plan
    if not plan.bases:
        return  # without a followed parent, nothing is replaced
    # What the author exports is for others to use.
    exported: set[str] = set()
    for layer in plan.layers:
        exported.update(layer.exports or ())
    for declaration in plan.declarations:
        # The classes of a file that is extended are the business of that file.
        is_own = declaration.symbol.module == plan.modular.source.module
        if is_own and declaration.symbol.name not in exported:
            yield from _check_use(declaration, blocks, builder)


def _check_use(
    declaration: Declaration, blocks: Sequence[FlatBlock], builder: Builder
) -> Iterator[Problem]:
    """The warning for one class, if there is cause for one."""
    name = declaration.symbol.name
    ancestors = find_ancestors(declaration, builder)
    parent = _find_parent(name, ancestors, builder.naming.plan)
    if parent is None or not _is_left_unused(name, parent.name, blocks):
        return
    is_similar = _is_similar(name, parent.name)
    is_for_users = any(symbol.name in FOR_USERS for symbol in ancestors)
    if is_similar or not is_for_users:
        yield _make_warning(declaration, parent, is_similar)


def _is_left_unused(name: str, parent: str, blocks: Sequence[FlatBlock]) -> bool:
    """Whether the class and its parent are both carried, and nothing names the class."""
    if not _is_carried(parent, blocks) or not _is_carried(name, blocks):
        return False
    return not _is_named(name, blocks)


def _make_warning(declaration: Declaration, parent: Symbol, is_similar: bool) -> Problem:
    """The warning, with the parent's name if that may have been meant."""
    name = declaration.symbol.name
    what = f"nothing uses the class {name}, and {parent.name} stays as it is"
    hint = (
        "only a class with its parent's name takes its place; what others import belongs in __all__"
    )
    if is_similar:
        hint = f"did you mean {parent.name}? {hint}"
    return Problem(declaration.at, "PG420", what, hint, "warning")


def find_ancestors(declaration: Declaration, builder: Builder) -> tuple[Symbol, ...]:
    """The classes that `declaration` derives from; none where they cannot be known."""
    try:
        return builder.lineages.mro(declaration.symbol, declaration.at)[1:]
    except PatchgenError:
        return ()


def _find_parent(name: str, ancestors: Sequence[Symbol], plan: ModulePlan) -> Symbol | None:
    """The nearest ancestor that is a model's class; None where one of them has the `name`."""
    if any(symbol.name == name for symbol in ancestors):
        return None
    models = {*plan.parents, *plan.bases.values()}
    for symbol in ancestors:
        if symbol.module in models:
            return symbol
    return None


def _is_carried(name: str, blocks: Sequence[FlatBlock]) -> bool:
    """Whether one of `blocks` defines `name`."""
    return any(name in block.defines for block in blocks)


def _is_named(name: str, blocks: Sequence[FlatBlock]) -> bool:
    """Whether the word stands outside its own class, if only in a string."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    return any(name not in block.defines and word.search(block.text) for block in blocks)


def _is_similar(name: str, other: str) -> bool:
    """Whether one name may be the other misspelt; `LlamaNorm2` is meant as it is."""
    if name.startswith(other) or name.endswith(other):
        return False
    return difflib.SequenceMatcher(None, name, other, autojunk=False).ratio() >= _SIMILAR
