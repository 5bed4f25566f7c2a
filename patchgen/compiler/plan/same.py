"""Tell whether two symbols stand for one definition in a flat file.

    modeling_llama.py:    def rotate_half(x): ...
    modeling_mistral.py:  def rotate_half(x): ...       the same words, about the same things: one

A class, and what keeps something between calls, is never two at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.naming import Naming
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.errors import Location
from patchgen.syntax.statements import is_plain

_NOWHERE = Location("")
_MAX_RE_EXPORTS = 8  # deeper than any chain of imports in transformers

Pairs = frozenset[tuple[Symbol, Symbol]]


def is_same_definition(a: Symbol, b: Symbol, naming: Naming, assumed: Pairs = frozenset()) -> bool:
    """Whether `a` and `b` have one definition, or two of the same text that mean the same.

    `assumed` holds the pairs that are being compared already: functions may call each other.
    """
    if a.is_same(b) or (a, b) in assumed:
        return True
    first = _follow_re_exports(a, naming.bindings)
    second = _follow_re_exports(b, naming.bindings)
    return first.is_same(second) or _are_copies(first, second, naming, assumed | {(a, b)})


def _follow_re_exports(symbol: Symbol, bindings: Bindings) -> Symbol:
    # A bound in place of a record of what was seen: no chain is that long, and a cycle ends.
    for _ in range(_MAX_RE_EXPORTS):
        is_theirs = symbol.name and symbol.module.partition(".")[0] == "transformers"
        if not is_theirs or bindings.env.path(symbol.module) is None:
            break
        index = bindings.env.index(symbol.module, _NOWHERE)
        item = index.imported(symbol.name)
        if item is None or index.definition(symbol.name):
            break
        symbol = bindings.imported_symbol(index, item)
    return symbol


def _are_copies(a: Symbol, b: Symbol, naming: Naming, assumed: Pairs) -> bool:
    """Whether two functions or constants have one text, and read the same things."""
    bindings = naming.bindings
    for symbol in (a, b):
        is_flattened = bindings.flatten_scope.flattens(symbol.module)
        if not is_flattened or not bindings.env.path(symbol.module):
            return False
    first = bindings.env.index(a.module, _NOWHERE)
    second = bindings.env.index(b.module, _NOWHERE)
    one = first.definition(a.name)
    other = second.definition(b.name)
    # Two classes of one text are still two: `isinstance` tells them apart.
    if one is None or other is None or one.text != other.text or one.kind == "class":
        return False
    names = one.uses - {a.name}
    return is_copied_freely(one) and mean_the_same(names, first, second, naming, assumed)


def mean_the_same(
    names: Iterable[str],
    first: ModuleIndex,
    second: ModuleIndex,
    naming: Naming,
    assumed: Pairs = frozenset(),
) -> bool:
    """Whether each of `names` stands for the same thing where the flat file has both modules."""
    for name in names:
        one = naming.meaning(first, name)
        other = naming.meaning(second, name)
        if one != other and not (one and other and is_same_definition(one, other, naming, assumed)):
            return False
    return True


def is_copied_freely(block: Block) -> bool:
    """Whether one object does for two that `block` would make in two modules.

    So it is for an import under a condition, a number, and a function or a class that keeps nothing
    between calls; `CACHE = {}` in two modules is two dictionaries.
    """
    if block.kind not in ("class", "def"):
        return block.kind == "guard" or is_plain(block)
    owner = rf"(?:\b(?:{block.name}|cls)|type\(self\))"
    return not re.search(rf"{owner}\.\w+(?:\[.*\])? *[-+*/|]?=|cache\b", block.text)
