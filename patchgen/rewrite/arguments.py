"""How the arguments of a call reach the parameters of a function that is to be written out in place of the call.

In: the call, the function, the method that calls.  Out: the lines that bind parameters, or None where the binding
could differ from what Python does.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from patchgen.source.scopes import FunctionNode

_EFFECTS_ON_NAMES = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


@dataclass(frozen=True, slots=True)
class Binding:
    """`passed` are parameters that the caller has under the same name; `bound` are (parameter, value), in order."""

    passed: tuple[str, ...]
    bound: tuple[tuple[str, ast.expr], ...]
    keywords: str | None = None


def bind(call: ast.Call, function: FunctionNode, caller: FunctionNode, skip: int = 0) -> Binding | None:
    """The binding of `call`'s arguments, of which the first `skip` are the object, to `function`'s parameters.

    None where the call does not fit, or where Python's own binding cannot be spelled as assignments.
    """
    a = function.args
    if a.vararg or any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    if any(isinstance(node, _EFFECTS_ON_NAMES) for arg in [*call.args, *call.keywords] for node in ast.walk(arg)):
        return None
    positional = [arg.arg for arg in [*a.posonlyargs, *a.args][1:]]
    by_keyword = {arg.arg for arg in [*a.args, *a.kwonlyargs]} - {_first(function)}
    given = call.args[skip:]
    if len(given) > len(positional):
        return None
    values: dict[str, ast.expr] = dict(zip(positional, given, strict=False))
    spread = [keyword.value for keyword in call.keywords if keyword.arg is None]
    for keyword in call.keywords:
        if keyword.arg is None:
            continue
        if keyword.arg in values or keyword.arg not in by_keyword:
            return None
        values[keyword.arg] = keyword.value
    every = [*positional, *(arg.arg for arg in a.kwonlyargs)]
    kwargs = _keywords(spread, a.kwarg.arg if a.kwarg else None, every, values, caller)
    if kwargs is None:
        return None
    defaults = _defaults(a)
    for name in every:
        if name not in values:
            if name not in defaults or not _is_constant(defaults[name]):
                return None
            values[name] = defaults[name]
    passed = tuple(n for n, value in values.items() if isinstance(value, ast.Name) and value.id == n)
    bound = tuple((n, value) for n, value in values.items() if n not in passed)
    return Binding(passed, bound + kwargs, a.kwarg.arg if spread and a.kwarg else None)


def _keywords(
    spread: Sequence[ast.expr],
    kwarg: str | None,
    every: Sequence[str],
    values: dict[str, ast.expr],
    caller: FunctionNode,
) -> tuple[tuple[str, ast.expr], ...] | None:
    """What binds `**kwarg`: nothing when the caller's own dictionary of that name is passed on."""
    if not spread:
        return ((kwarg, ast.Dict([], [])),) if kwarg else ()
    own = {arg.arg for arg in [*caller.args.args, *caller.args.kwonlyargs]}
    same = len(spread) == 1 and isinstance(spread[0], ast.Name) and spread[0].id == kwarg
    # Were a parameter not the caller's own, the dictionary could hold it, and Python would call that an error.
    whole = all(name in values and name in own for name in every)
    is_own = caller.args.kwarg is not None and caller.args.kwarg.arg == kwarg
    return () if same and whole and is_own else None


def _defaults(a: ast.arguments) -> dict[str, ast.expr]:
    positional = [arg.arg for arg in [*a.posonlyargs, *a.args]]
    found = dict(zip(positional[len(positional) - len(a.defaults) :], a.defaults, strict=True))
    found |= {arg.arg: value for arg, value in zip(a.kwonlyargs, a.kw_defaults, strict=True) if value}
    return found


def _is_constant(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant)


def _first(function: FunctionNode) -> str:
    return [*function.args.posonlyargs, *function.args.args][0].arg
