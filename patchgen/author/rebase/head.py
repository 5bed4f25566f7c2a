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

from patchgen.author.align.file import Cut
from patchgen.author.rebase.code import Code
from patchgen.compiler.edits.pattern import arguments
from patchgen.compiler.edits.signature import read_parameters
from patchgen.syntax.fragments import Fragment
from patchgen.syntax.same import is_documenting, plain_text
from patchgen.syntax.trees import Function

_STARS = ("", "*", "", "**")  # by kind


class _Parameter(NamedTuple):
    """One parameter, and how it is given: by position, as `*args`, by name, or as `**kwargs`."""

    kind: int
    arg: ast.arg
    default: ast.expr | None = None

    @property
    def says(self) -> tuple[int, str, str]:
        """What of it counts; an annotation only documents."""
        name = self.arg.arg if _STARS[self.kind] else ""
        return self.kind, name, plain_text(self.default) if self.default is not None else ""


_Parameters = Mapping[str, _Parameter]


def with_parameters(theirs: Code, base: Function, ours: Function) -> Code | None:
    """The new parent's method with the declaration's changes of parameters; None for a clash."""
    function = theirs.function
    if function is None or any(f.args.posonlyargs for f in (base, ours, function)):
        return None
    before, mine, upstream = (_parameters(f.args) for f in (base, ours, function))
    if [name for name in mine if name in before] != [name for name in before if name in mine]:
        return None
    merged: list[_Parameter] = []
    for name in _order(before, mine, upstream):
        sides = [side.get(name) for side in (before, mine, upstream)]
        old, own, new = (parameter and parameter.says for parameter in sides)
        if own != old and new not in (old, own):
            return None
        winner = sides[1] if new == old else sides[2]
        if winner is not None:
            there = upstream.get(name, winner).arg
            merged.append(winner._replace(arg=there) if there.arg == winner.arg.arg else winner)
    if not function.args.args:
        return None
    first, *_ = function.args.args
    places = [n for n in ast.walk(function.args) if isinstance(n, ast.arg | ast.expr)]
    end = max((n.end_lineno or 0, n.end_col_offset or 0) for n in places)
    return theirs.changed([Cut((first.lineno, first.col_offset), end, _written(merged))])


def without_decorators(theirs: Code, base: Function, ours: Function) -> Code | None:
    """The new parent's method without the decorators that the declaration drops; None for a clash.

    A decorator with the same arguments under another name is the same one.  Upstream's new ones
    stay.
    """
    function = theirs.function
    if function is None:
        return None
    before, mine, upstream = (_decorators(f) for f in (base, ours, function))
    dropped = [new for new in upstream if any(_is_renamed(old, new) for old in before)]
    is_same = len(before) == len(dropped) and all(map(_is_renamed, before, dropped))
    if mine or not is_same:
        return None
    return theirs.changed(Cut((d.lineno, 0), ((d.end_lineno or 0) + 1, 0), "") for d in dropped)


def _decorators(function: Function) -> list[ast.expr]:
    return [d for d in function.decorator_list if not is_documenting(d)]


def _is_renamed(old: ast.expr, new: ast.expr) -> bool:
    if plain_text(old) == plain_text(new):
        return True
    calls = [n for n in (old, new) if isinstance(n, ast.Call) and arguments(n)]
    said = [[*map(plain_text, arguments(call))] for call in calls]
    return len(said) == 2 and said[0] == said[1]


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
        in_front = any(after in before for after in names[place + 1 :] if mine[after].kind == 0)
        if mine[name].kind == 0 and (in_front or mine[name].default is None) and place:
            order.insert(order.index(names[place - 1]) + 1, name)
        else:
            order.append(name)
    return order


def _written(parameters: list[_Parameter]) -> str:
    """The text of parameters, each kind behind those before it."""
    texts: list[str] = []
    for parameter in sorted(parameters, key=lambda one: one.kind):
        kinds = {one.kind for one in parameters}
        if parameter.kind == 2 and 1 not in kinds and "*" not in texts:
            texts.append("*")
        stars = _STARS[parameter.kind]
        equals = " = " if parameter.arg.annotation is not None else "="
        default = f"{equals}{ast.unparse(parameter.default)}" if parameter.default else ""
        texts.append(f"{stars}{ast.unparse(parameter.arg)}{default}")
    return ", ".join(texts)
