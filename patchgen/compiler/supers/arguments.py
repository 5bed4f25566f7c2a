"""How the arguments of a call reach the parameters of a function that is to be written out in place of the call.

In: the call, the function, the method that calls.  Out: the lines that bind parameters, or None where the binding
could differ from what Python does.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen.syntax.scopes import FunctionNode

_EFFECTS_ON_NAMES = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


@dataclass(frozen=True, slots=True)
class Binding:
    """`passed` are parameters that the caller has under the same name; `bound` are (parameter, value), in order."""

    passed: tuple[str, ...]
    bound: tuple[tuple[str, ast.expr], ...]
    keywords: str | None = None


@dataclass(frozen=True, slots=True)
class _Parameters:
    """What a function takes behind its object: by position, by name, and what is there if nothing is given."""

    positional: tuple[str, ...]
    by_name: frozenset[str]
    every: tuple[str, ...]
    defaults: Mapping[str, ast.expr]
    keywords: str | None


def bind(
    call: ast.Call, function: FunctionNode, caller: FunctionNode, skip: int = 0
) -> Binding | None:
    """The binding of `call`'s arguments, of which the first `skip` are the object, to `function`'s parameters.

    None where the call does not fit, or where Python's own binding cannot be spelled as assignments.
    """
    if function.args.vararg or not _is_spelled_out(call):
        return None
    wanted = _parameters(function)
    given = _given(call, wanted, skip)
    if given is None:
        return None
    spread = [keyword.value for keyword in call.keywords if keyword.arg is None]
    keywords = _keywords(spread, wanted, given, caller)
    values = _with_defaults(given, wanted)
    if keywords is None or values is None:
        return None
    passed = tuple(
        n for n, value in values.items() if isinstance(value, ast.Name) and value.id == n
    )
    bound = tuple((n, value) for n, value in values.items() if n not in passed)
    return Binding(passed, bound + keywords, wanted.keywords if spread else None)


def _is_spelled_out(call: ast.Call) -> bool:
    """Whether the call has no `*args`, and no argument that binds a name or waits."""
    parts = [node for argument in [*call.args, *call.keywords] for node in ast.walk(argument)]
    is_starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return not is_starred and not any(isinstance(node, _EFFECTS_ON_NAMES) for node in parts)


def _parameters(function: FunctionNode) -> _Parameters:
    a = function.args
    _object, *positional = [arg.arg for arg in [*a.posonlyargs, *a.args]]
    only_by_name = [arg.arg for arg in a.kwonlyargs]
    by_name = {arg.arg for arg in [*a.args, *a.kwonlyargs]} - {_object}
    every = (*positional, *only_by_name)
    return _Parameters(
        tuple(positional), frozenset(by_name), every, _defaults(a), a.kwarg.arg if a.kwarg else None
    )


def _given(call: ast.Call, wanted: _Parameters, skip: int) -> dict[str, ast.expr] | None:
    """The parameters that the call gives, `**` left out; None where Python would raise TypeError."""
    arguments = call.args[skip:]
    if len(arguments) > len(wanted.positional):
        return None
    values = dict(zip(wanted.positional, arguments, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None:
            continue
        if keyword.arg in values or keyword.arg not in wanted.by_name:
            return None
        values[keyword.arg] = keyword.value
    return values


def _with_defaults(
    values: Mapping[str, ast.expr], wanted: _Parameters
) -> dict[str, ast.expr] | None:
    """`values` and the defaults of the other parameters, where these are constants; None where they are not."""
    complete = dict(values)
    for name in wanted.every:
        if name in complete:
            continue
        default = wanted.defaults.get(name)
        if default is None or not _is_constant(default):
            return None
        complete[name] = default
    return complete


def _keywords(
    spread: Sequence[ast.expr],
    wanted: _Parameters,
    given: Mapping[str, ast.expr],
    caller: FunctionNode,
) -> tuple[tuple[str, ast.expr], ...] | None:
    """What binds `**kwargs`: nothing when the caller's own dictionary of that name is passed on."""
    name = wanted.keywords
    if not spread:
        return ((name, ast.Dict([], [])),) if name else ()
    is_same = len(spread) == 1 and isinstance(spread[0], ast.Name) and spread[0].id == name
    is_own = caller.args.kwarg is not None and caller.args.kwarg.arg == name
    # Were a parameter not the caller's own, the dictionary could hold it, and Python would call that an error.
    own = {arg.arg for arg in [*caller.args.args, *caller.args.kwonlyargs]}
    is_whole = all(parameter in given and parameter in own for parameter in wanted.every)
    return () if is_same and is_own and is_whole else None


def _defaults(a: ast.arguments) -> dict[str, ast.expr]:
    positional = [arg.arg for arg in [*a.posonlyargs, *a.args]]
    found = dict(zip(positional[len(positional) - len(a.defaults) :], a.defaults, strict=True))
    found |= {
        arg.arg: value for arg, value in zip(a.kwonlyargs, a.kw_defaults, strict=True) if value
    }
    return found


def _is_constant(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant)
