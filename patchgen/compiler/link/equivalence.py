"""Decide whether two symbols stand for the same thing.

    transformers.utils.can_return_tuple              re-exported from the second
    transformers.utils.generic.can_return_tuple

    models.llama.modeling_llama.rotate_half          copies of one text
    models.mistral.modeling_mistral.rotate_half

Code that reads the one and code that reads the other can stand in one file.
"""

from __future__ import annotations

from collections.abc import Iterable

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.model import Symbol
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.errors import Location
from patchgen.syntax.statements import is_plain

_NOWHERE = Location("")
_MAX_RE_EXPORTS = 8  # deeper than any chain of imports in transformers

Pairs = frozenset[tuple[Symbol, Symbol]]


def is_same_definition(
    a: Symbol, b: Symbol, bindings: Bindings, assumed: Pairs = frozenset()
) -> bool:
    """Whether `a` and `b` have one definition, or two of the same text that mean the same.

    `assumed` holds the pairs that are being compared already, because functions may call each
    other.
    """
    if a.is_same(b) or (a, b) in assumed:
        return True
    first, second = _follow_re_exports(a, bindings), _follow_re_exports(b, bindings)
    if first.is_same(second):
        return True
    return _are_copies(first, second, bindings, assumed | {(a, b)})


def _follow_re_exports(symbol: Symbol, bindings: Bindings) -> Symbol:
    """The symbol with every re-export inside transformers followed."""
    # A bound in place of a record of what was seen: no chain is that long, and a cycle ends.
    for _ in range(_MAX_RE_EXPORTS):
        in_transformers = symbol.module.partition(".")[0] == "transformers"
        if not symbol.name or not in_transformers:
            break
        if bindings.env.path(symbol.module) is None:
            break
        index = bindings.env.index(symbol.module, _NOWHERE)
        if index.definition(symbol.name):
            break
        item = index.imported(symbol.name)
        if item is None:
            break
        symbol = bindings.imported_symbol(index, item)
    return symbol


def _are_copies(a: Symbol, b: Symbol, bindings: Bindings, assumed: Pairs) -> bool:
    """Whether two functions or constants have one text, and read the same things."""
    for symbol in (a, b):
        is_flattened = bindings.flatten_scope.flattens(symbol.module)
        if not is_flattened or not bindings.env.path(symbol.module):
            return False
    first, second = bindings.env.index(a.module, _NOWHERE), bindings.env.index(b.module, _NOWHERE)
    one, other = first.definition(a.name), second.definition(b.name)
    if one is None or other is None:
        return False
    # Two classes of one text are still two: `isinstance` tells them apart.
    if one.text != other.text or one.kind == "class":
        return False
    if not is_copied_freely(one):
        return False
    return mean_the_same(one.uses - {a.name}, first, second, bindings, assumed)


def mean_the_same(
    names: Iterable[str],
    first: ModuleIndex,
    second: ModuleIndex,
    bindings: Bindings,
    assumed: Pairs = frozenset(),
) -> bool:
    """Whether each of `names` stands for the same thing in both modules."""
    for name in names:
        one, other = bindings.meaning(first, name), bindings.meaning(second, name)
        if one == other:
            continue
        if one is None or other is None:
            return False
        if not is_same_definition(one, other, bindings, assumed):
            return False
    return True


def is_copied_freely(block: Block) -> bool:
    """Whether one object does for two that `block` would make in two modules.

    So it is for a function, a class, an import under a condition and a number; `CACHE = {}` in two
    modules is two dictionaries.
    """
    return block.kind in ("class", "def", "guard") or is_plain(block)
