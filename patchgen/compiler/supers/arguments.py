"""Bind the arguments of a call to the parameters of the function that is inlined there.

In: the call, the function, and the method that calls it.  Out: the assignments that bind the
parameters, or None where assignments could differ from what Python does.

    # the parent's method: def forward(self, x, scale=1)
    super().forward(y)          x = y
                                scale = 1
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchgen.syntax.bound import FunctionNode

# As an argument, each of these does more than give a value: it binds a name, or it suspends.
_EFFECTS_ON_NAMES = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


@dataclass(frozen=True, slots=True)
class Binding:
    """How every parameter gets its value.

    `passed` are parameters that the caller has under the same name.  `bound` are pairs of a
    parameter and its value, in order.  `keywords` is the name of `**kwargs` if it is passed on.
    """

    passed: tuple[str, ...]
    bound: tuple[tuple[str, ast.expr], ...]
    keywords: str | None = None


@dataclass(frozen=True, slots=True)
class _Parameters:
    """The parameters of a function behind `self`.

    `positional` can be given by position, `by_name` by name.  `every` are both in order,
    `keywords` is the name of `**kwargs`.
    """

    positional: tuple[str, ...]
    by_name: frozenset[str]
    every: tuple[str, ...]
    defaults: Mapping[str, ast.expr]
    keywords: str | None


def bind(
    call: ast.Call, function: FunctionNode, caller: FunctionNode, skip: int = 0
) -> Binding | None:
    """Bind the arguments of `call`, of which the first `skip` are the object.

    None where the call does not fit the function, or where assignments cannot express the binding.
    """
    if function.args.vararg or not _is_spelled_out(call):
        return None
    parameters = _read_parameters(function)
    given = _match_arguments(call, parameters, skip)
    if given is None:
        return None
    starred = [keyword.value for keyword in call.keywords if keyword.arg is None]
    keywords = _bind_keywords(starred, parameters, given, caller)
    values = _add_defaults(given, parameters)
    if keywords is None or values is None:
        return None

    passed: list[str] = []
    bound: list[tuple[str, ast.expr]] = []
    for name, value in values.items():
        # `super().forward(x)` for a parameter `x`: the variable is there already.
        if isinstance(value, ast.Name) and value.id == name:
            passed.append(name)
        else:
            bound.append((name, value))
    own_keywords = parameters.keywords if starred else None
    return Binding(tuple(passed), (*bound, *keywords), own_keywords)


def _is_spelled_out(call: ast.Call) -> bool:
    """Whether the call has no `*args`, and no argument that binds a name or suspends."""
    for argument in [*call.args, *call.keywords]:
        if isinstance(argument, ast.Starred):
            return False
        if any(isinstance(node, _EFFECTS_ON_NAMES) for node in ast.walk(argument)):
            return False
    return True


def _read_parameters(function: FunctionNode) -> _Parameters:
    """What a call can bind of `function`."""
    arguments = function.args
    # The object is bound by the method that calls, not by an argument.
    receiver, *positional = [arg.arg for arg in [*arguments.posonlyargs, *arguments.args]]
    only_by_name = [arg.arg for arg in arguments.kwonlyargs]
    by_name = {arg.arg for arg in [*arguments.args, *arguments.kwonlyargs]} - {receiver}
    keywords = None
    if arguments.kwarg is not None:
        keywords = arguments.kwarg.arg
    return _Parameters(
        positional=tuple(positional),
        by_name=frozenset(by_name),
        every=(*positional, *only_by_name),
        defaults=_read_defaults(arguments),
        keywords=keywords,
    )


def _read_defaults(arguments: ast.arguments) -> dict[str, ast.expr]:
    """The default of each parameter that has one."""
    positional = [arg.arg for arg in [*arguments.posonlyargs, *arguments.args]]
    # Defaults belong to the last parameters: `def f(a, b=1)` has one default for two parameters.
    with_default = positional[len(positional) - len(arguments.defaults) :]
    found = dict(zip(with_default, arguments.defaults, strict=True))
    for arg, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if value is not None:
            found[arg.arg] = value
    return found


def _match_arguments(
    call: ast.Call, parameters: _Parameters, skip: int
) -> dict[str, ast.expr] | None:
    """The value of each parameter that the call gives, without `**`.

    None where Python would raise TypeError.
    """
    arguments = call.args[skip:]
    if len(arguments) > len(parameters.positional):
        return None
    values = dict(zip(parameters.positional, arguments, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None:
            continue
        # Given twice, or under a name that can only be given by position.
        if keyword.arg in values or keyword.arg not in parameters.by_name:
            return None
        values[keyword.arg] = keyword.value
    return values


def _add_defaults(
    values: Mapping[str, ast.expr], parameters: _Parameters
) -> dict[str, ast.expr] | None:
    """`values` with the defaults of the other parameters.

    None where one has no default, or one that is no constant: Python evaluates a default once, in
    the scope of the class body, so that only a constant means the same in the caller.
    """
    complete = dict(values)
    left = [name for name in parameters.every if name not in complete]
    for name in left:
        default = parameters.defaults.get(name)
        if default is None or not _is_constant(default):
            return None
        complete[name] = default
    return complete


def _bind_keywords(
    starred: Sequence[ast.expr],
    parameters: _Parameters,
    given: Mapping[str, ast.expr],
    caller: FunctionNode,
) -> tuple[tuple[str, ast.expr], ...] | None:
    """What binds `**kwargs`: nothing when the caller passes on its own dictionary of that name."""
    name = parameters.keywords
    if not starred:
        # Nothing is left over for it.
        return () if name is None else ((name, ast.Dict([], [])),)
    if len(starred) != 1 or name is None:
        return None
    if not _is_own_dictionary(starred[0], name, caller):
        return None
    # If a parameter was not the caller's own, the dictionary could hold its value as well, and
    # Python would raise TypeError.
    own = {parameter.arg for parameter in [*caller.args.args, *caller.args.kwonlyargs]}
    every = set(parameters.every)
    if not every <= own or not every <= set(given):
        return None
    return ()


def _is_own_dictionary(value: ast.expr, name: str, caller: FunctionNode) -> bool:
    """Whether `value` is the caller's own `**kwargs`, which has to be called `name`.

    Another dictionary could hold the parameters too.
    """
    own = caller.args.kwarg
    if own is None or own.arg != name:
        return False
    return isinstance(value, ast.Name) and value.id == name


def _is_constant(node: ast.expr) -> bool:
    """Whether a default has the same value wherever it is evaluated."""
    # `-1` is an operator and a constant for `ast`.
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant)
