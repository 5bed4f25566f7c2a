"""The head of a method where no edit says how the declaration changes it.

base     def forward(self, x, mask=None):
ours     def forward(self, x, seq, mask=None):
theirs   def forward(self, x, mask=None, cache=None):
merged   def forward(self, x, seq, mask=None, cache=None):
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import NamedTuple

from patchgen.author.align.file import Cut, of_lines
from patchgen.author.rebase.code import Code
from patchgen.compiler.edits.pattern import arguments
from patchgen.compiler.edits.signature import read_parameters
from patchgen.syntax.fragments import Fragment
from patchgen.syntax.same import is_documenting, plain_text, plain_texts
from patchgen.syntax.trees import Function

_STARS = ("", "*", "", "**")  # by kind


class _Parameter(NamedTuple):
    """One parameter, and how it is given: by position, as `*args`, by name, or as `**kwargs`."""

    kind: int
    arg: ast.arg
    default: ast.expr | None = None


def _says(parameter: _Parameter | None) -> tuple[int, str, str] | None:
    """What of a parameter counts; an annotation only documents."""
    if parameter is None:
        return None
    name = parameter.arg.arg if _STARS[parameter.kind] else ""
    default = plain_text(parameter.default) if parameter.default is not None else ""
    return parameter.kind, name, default


_Parameters = Mapping[str, _Parameter]


def with_parameters(theirs: Code, base: Function, ours: Function) -> Code | None:
    """The new parent's method with the declaration's changes of parameters; None for a clash."""
    function = theirs.function
    if function is None or any(f.args.posonlyargs for f in (base, ours, function)):
        return None
    before = _parameters(base.args)
    mine = _parameters(ours.args)
    upstream = _parameters(function.args)
    if [name for name in mine if name in before] != [name for name in before if name in mine]:
        return None
    merged: list[_Parameter] = []
    for name in _order(before, mine, upstream):
        old = before.get(name)
        own = mine.get(name)
        new = upstream.get(name)
        if _says(own) == _says(old):
            winner = new
        elif _says(new) in (_says(old), _says(own)):
            winner = own
        else:
            return None
        if winner is not None:
            there = new.arg if new is not None else winner.arg
            merged.append(winner._replace(arg=there) if there.arg == winner.arg.arg else winner)
    if not function.args.args:
        return None
    first = function.args.args[0]
    places = [n for n in ast.walk(function.args) if isinstance(n, ast.arg | ast.expr)]
    end = max((n.end_lineno or 0, n.end_col_offset or 0) for n in places)
    return theirs.changed([Cut((first.lineno, first.col_offset), end, _written(merged))])


def without_decorators(theirs: Code, base: Function, ours: Function) -> Code | None:
    """The new parent's method without the decorators that the declaration drops; None for a clash.

    A decorator with the same arguments under another name is the same one.  Upstream's new ones
    stay.
    """
    function = theirs.function
    if function is None or _decorators(ours):
        return None
    before = _decorators(base)
    dropped: list[ast.expr] = []
    for decorator in _decorators(function):
        if any(_is_renamed(old, decorator) for old in before):
            dropped.append(decorator)
    if len(before) != len(dropped) or not all(map(_is_renamed, before, dropped)):
        return None
    cuts = [of_lines(decorator.lineno, decorator.end_lineno or 0, ()) for decorator in dropped]
    return theirs.changed(cuts)


def _decorators(function: Function) -> list[ast.expr]:
    return [d for d in function.decorator_list if not is_documenting(d)]


def _is_renamed(old: ast.expr, new: ast.expr) -> bool:
    if plain_text(old) == plain_text(new):
        return True
    if not isinstance(old, ast.Call) or not isinstance(new, ast.Call):
        return False
    before = plain_texts(arguments(old))
    return bool(before) and before == plain_texts(arguments(new))


def _parameters(arguments: ast.arguments) -> dict[str, _Parameter]:
    """The parameters in their order; `*args` and `**kwargs` go by their stars."""
    every = {
        one.name: _Parameter(2 if one.by_name else 0, one.arg, one.default)
        for one in read_parameters(arguments, Fragment("", (), ()))
    }
    if arguments.vararg is not None:
        every["*"] = _Parameter(1, arguments.vararg)
    if arguments.kwarg is not None:
        every["**"] = _Parameter(3, arguments.kwarg)
    return every


def _order(before: _Parameters, mine: _Parameters, upstream: _Parameters) -> list[str]:
    """The declaration's order; where upstream changed it, upstream's.

    There, what the declaration adds in front of a parameter of the parent, or without a default,
    stands behind what it stood behind: calls may count on its place.
    """
    if [*before] == [*upstream]:
        return [*dict.fromkeys([*mine, *before])]
    order = [*dict.fromkeys([*upstream, *before])]
    names = [*mine]
    for place, name in enumerate(names):
        if name in order:
            continue
        behind = [after for after in names[place + 1 :] if mine[after].kind == 0]
        is_in_front = not before.keys().isdisjoint(behind)
        is_counted = is_in_front or mine[name].default is None
        if mine[name].kind == 0 and is_counted and place:
            above = order.index(names[place - 1])
            order.insert(above + 1, name)
        else:
            order.append(name)
    return order


def _written(parameters: list[_Parameter]) -> str:
    """The text of parameters, each kind behind those before it."""
    texts: list[str] = []
    kinds = {parameter.kind for parameter in parameters}
    for kind, arg, default in sorted(parameters, key=lambda parameter: parameter.kind):
        if kind == 2 and 1 not in kinds and "*" not in texts:
            texts.append("*")
        text = _STARS[kind] + ast.unparse(arg)
        if default is not None:
            equals = " = " if arg.annotation is not None else "="
            text = f"{text}{equals}{ast.unparse(default)}"
        texts.append(text)
    return ", ".join(texts)
