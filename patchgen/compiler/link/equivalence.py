"""Decide whether two symbols stand for the same thing.

    transformers.utils.can_return_tuple              re-exported from the second
    transformers.utils.generic.can_return_tuple

    models.llama.modeling_llama.rotate_half          copies of one text
    models.mistral.modeling_mistral.rotate_half

Code that reads the one and code that reads the other can stand in one file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from patchgen.compiler.plan.bindings import Bindings
from patchgen.compiler.plan.model import Symbol
from patchgen.compiler.plan.plain_values import is_plain, is_plain_value
from patchgen.facts.decorators import STATELESS
from patchgen.syntax.blocks import Block, ModuleIndex
from patchgen.syntax.errors import Location
from patchgen.syntax.trees import called_function, list_arguments, list_defaults, parse_once

_LIBRARIES = frozenset({"torch", "nn"})
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

    So it is for a function, a class without state and a number.  `CACHE = {}` in two modules is two
    dictionaries.  A guarded import brings one object, however often it runs.
    """
    if block.is_guarded:
        return all(_only_imports(node) for node in parse_once(block.text).body)
    if block.kind not in ("class", "def"):
        return is_plain(block)
    # A block of several statements is no definition.
    (definition,) = parse_once(block.text).body
    members = [definition]
    if isinstance(definition, ast.ClassDef):
        members = definition.body
    if not all(_has_no_state(member) for member in members):
        return False
    return not any(_stores_state(node, block.name) for node in ast.walk(definition))


def _stores_state(node: ast.AST, name: str) -> bool:
    """Whether the definition `name`, which `node` is a part of, keeps something between uses."""
    match node:
        case ast.Global() | ast.Attribute(attr="__subclasses__" | "__dict__"):
            return True
        case (
            ast.Attribute(value=owner, ctx=ast.Store() | ast.Del())
            | ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[owner, *_])
        ):
            return _is_definition(owner, name)
        case ast.FunctionDef(decorator_list=decorators) | ast.ClassDef(decorator_list=decorators):
            return not all(_is_stateless(decorator) for decorator in decorators)
        case _:
            return False


def _is_definition(owner: ast.expr, name: str) -> bool:
    """Whether `owner` is the class or function `name` itself: `cls`, `type(self)`."""
    match owner:
        case ast.Name(id=found):
            return found in ("cls", name)
        case ast.Attribute(attr="__class__") | ast.Call(func=ast.Name(id="type")):
            return True
        case _:
            return False


def _is_stateless(decorator: ast.expr) -> bool:
    """Whether a decorator is known to store nothing; all of torch are taken for such."""
    names = ast.unparse(called_function(decorator)).split(".")
    return names[0] in _LIBRARIES or names[-1] in STATELESS


def _only_imports(node: ast.stmt) -> bool:
    """Whether `node` only imports by absolute names and binds plain values."""
    match node:
        # `try: import x` with any number of handlers.
        case ast.Try():
            inner = [*node.body, *node.orelse, *node.finalbody]
            for handler in node.handlers:
                inner += handler.body
            return all(map(_only_imports, inner))
        case ast.If() if _asks_what_is_installed(node.test):
            return all(map(_only_imports, [*node.body, *node.orelse]))
        case ast.Assign(targets=[ast.Name()], value=value):
            return is_plain_value(value)
        case ast.ImportFrom():
            return node.level == 0
        case _:
            return isinstance(node, ast.Import | ast.Pass)


def _has_no_state(node: ast.stmt) -> bool:
    """Whether a member of a class, or a function, holds no object that can change."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            # `def f(x, seen=[])` keeps a list between calls.
            return not any(_makes_object(default) for default in list_defaults(node.args))
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
            return is_plain_value(value) or isinstance(value, ast.Name | ast.Attribute)
        case _:
            return isinstance(node, ast.AnnAssign | ast.Pass | ast.Expr)


def _makes_object(value: ast.expr) -> bool:
    kinds = ast.Call | ast.List | ast.Dict | ast.Set
    return any(isinstance(node, kinds) for node in ast.walk(value))


def _asks_what_is_installed(test: ast.expr) -> bool:
    """Whether a condition has one answer in all modules: `is_torch_available() and not SLOW`.

    Of a call, the arguments have to be plain values: others could differ.
    """
    match test:
        case ast.BoolOp(values=values):
            return all(map(_asks_what_is_installed, values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _asks_what_is_installed(operand)
        case ast.Compare(left=left, comparators=others):
            return all(map(_asks_what_is_installed, [left, *others]))
        case ast.Attribute(value=owner):
            return _asks_what_is_installed(owner)
        case ast.Call(func=function):
            are_plain = all(map(is_plain_value, list_arguments(test)))
            return are_plain and _asks_what_is_installed(function)
        case _:
            return isinstance(test, ast.Name) or is_plain_value(test)
