"""Whether two symbols are one thing under two addresses.

`transformers.utils.can_return_tuple` is a re-export of `transformers.utils.generic.can_return_tuple`, and
`rotate_half` is copied from model to model: code of two modules that reads either can stand in one file.
"""

from __future__ import annotations

import ast

from patchgen.errors import Location
from patchgen.plan.bindings import Bindings
from patchgen.plan.changes import is_plain, is_plain_value
from patchgen.plan.model import Symbol
from patchgen.source.blocks import Block

_NOWHERE = Location("")
_RE_EXPORTS = 8  # deeper than any chain of imports in transformers


Pairs = frozenset[tuple[Symbol, Symbol]]


def same_thing(a: Symbol, b: Symbol, bindings: Bindings, assumed: Pairs = frozenset()) -> bool:
    """Whether `a` and `b` have one definition, or two of the same text that mean the same.

    `assumed` are pairs that are being compared already: functions may call each other.
    """
    if a.is_same(b) or (a, b) in assumed:
        return True
    first, second = _resolved(a, bindings), _resolved(b, bindings)
    return first.is_same(second) or _same_text(first, second, bindings, assumed | {(a, b)})


def _resolved(symbol: Symbol, bindings: Bindings) -> Symbol:
    """The symbol with every re-export inside transformers followed."""
    for _ in range(_RE_EXPORTS):
        known = symbol.name and symbol.module.partition(".")[0] == "transformers"
        if not known or bindings.env.path(symbol.module) is None:
            break
        index = bindings.env.index(symbol.module, _NOWHERE)
        item = None if index.definition(symbol.name) else index.imported(symbol.name)
        if item is None:
            break
        symbol = bindings.imported_symbol(index, item)
    return symbol


def _same_text(a: Symbol, b: Symbol, bindings: Bindings, assumed: Pairs) -> bool:
    """Whether two functions or constants are copies, and what they read of their modules is the same too."""
    if not all(bindings.territory.flattens(s.module) and bindings.env.path(s.module) for s in (a, b)):
        return False
    first, second = bindings.env.index(a.module, _NOWHERE), bindings.env.index(b.module, _NOWHERE)
    one, other = first.definition(a.name), second.definition(b.name)
    if one is None or other is None or one.text != other.text or one.kind == "class" or not is_copied_freely(one):
        return False
    meanings = [(bindings.meaning(first, name), bindings.meaning(second, name)) for name in one.uses - {a.name}]
    return all(x == y or (x and y and same_thing(x, y, bindings, assumed)) for x, y in meanings)


def is_copied_freely(block: Block) -> bool:
    """Whether nobody can tell two objects that `block` makes from one: a function, a class without state, a number.

    `CACHE = {}` in two modules is two dictionaries.  A guarded import brings one object, however often it runs.
    """
    if block.is_guarded:
        return all(map(_only_imports, ast.parse(block.text).body))
    if block.kind == "class":
        (node,) = ast.parse(block.text).body
        return isinstance(node, ast.ClassDef) and all(map(_has_no_state, node.body))
    if block.kind == "def":
        return all(map(_has_no_state, ast.parse(block.text).body))
    return is_plain(block)


def _only_imports(node: ast.stmt) -> bool:
    """Whether `node` binds names to what is imported by its absolute name, or to plain values, and does no more."""
    match node:
        case ast.Try():
            handled = [child for handler in node.handlers for child in handler.body]
            return all(map(_only_imports, [*node.body, *handled, *node.orelse, *node.finalbody]))
        case ast.If(test=ast.Name() | ast.Call(func=ast.Name(), args=[], keywords=[])):
            return all(map(_only_imports, [*node.body, *node.orelse]))
        case ast.Assign(targets=[ast.Name()], value=value):
            return is_plain_value(value)
        case ast.ImportFrom():
            return node.level == 0
        case _:
            return isinstance(node, ast.Import | ast.Pass)


def _has_no_state(node: ast.stmt) -> bool:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            defaults = [*node.args.defaults, *(default for default in node.args.kw_defaults if default)]
            return not any(
                isinstance(n, ast.Call | ast.List | ast.Dict | ast.Set) for d in defaults for n in ast.walk(d)
            )
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
            return is_plain_value(value) or isinstance(value, ast.Name | ast.Attribute)
        case _:
            return isinstance(node, ast.AnnAssign | ast.Pass | ast.Expr)
